// Purpose:  TLS on an accepted socket, for a listener with a certificate.
// Owns:     the context; each session.
// Thread:   the gateway's.
// Lifetime: sessions end before their context.
#pragma once

#include <cstddef>
#include <string>

struct ssl_ctx_st;
struct ssl_st;

namespace aotx {

// Results of reading and writing, plain or TLS.
constexpr long kIoAgain = -1;   // nothing now; epoll says when
constexpr long kIoFailed = -2;  // the connection is of no more use

// One listener's certificate and key, TLS 1.2 and later. nullptr: *error says what is wrong.
[[nodiscard]] ssl_ctx_st* tls_open(const std::string& certificate_path, const std::string& key_path,
                                   std::string* error) noexcept;
void tls_close(ssl_ctx_st* context) noexcept;

// A session on a non-blocking socket; the handshake happens within read and write. nullptr: no
// memory.
[[nodiscard]] ssl_st* tls_accept(ssl_ctx_st* context, int fd) noexcept;
void tls_free(ssl_st* session) noexcept;

// As recv and send: bytes, 0 for the end of the peer's data, kIoAgain or kIoFailed.
[[nodiscard]] long tls_read(ssl_st* session, char* bytes, size_t bytes_count) noexcept;
[[nodiscard]] long tls_write(ssl_st* session, const char* bytes, size_t bytes_count) noexcept;
// Tell the peer that nothing follows.
void tls_end(ssl_st* session) noexcept;

}  // namespace aotx
