// Purpose:  TLS on an accepted socket; see tls.h.
// Owns:     nothing of its own.
// Thread:   the gateway's.
// Lifetime: not applicable.
#include "tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <climits>

namespace aotx {
namespace {

long result_of(ssl_st* session, int returned)
{
    const int error = SSL_get_error(session, returned);
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        return kIoAgain;
    }
    return error == SSL_ERROR_ZERO_RETURN ? 0 : kIoFailed;
}

int length_of(size_t bytes_count)
{
    return static_cast<int>(std::min<size_t>(bytes_count, INT_MAX));
}

}  // namespace

ssl_ctx_st* tls_open(const std::string& certificate_path, const std::string& key_path,
                     std::string* error) noexcept
{
    ssl_ctx_st* const context = SSL_CTX_new(TLS_server_method());
    if (context == nullptr) {
        *error = "TLS cannot be set up";
        return nullptr;
    }
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    // A partial write may continue from another buffer; renegotiation only costs us.
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    const char* wrong = nullptr;
    if (SSL_CTX_use_certificate_chain_file(context, certificate_path.c_str()) != 1) {
        wrong = "the certificate cannot be read";
    } else if (SSL_CTX_use_PrivateKey_file(context, key_path.c_str(), SSL_FILETYPE_PEM) != 1) {
        wrong = "the key cannot be read";
    } else if (SSL_CTX_check_private_key(context) != 1) {
        wrong = "the key does not belong to the certificate";
    }
    ERR_clear_error();
    if (wrong != nullptr) {
        *error = wrong;
        SSL_CTX_free(context);
        return nullptr;
    }
    return context;
}

void tls_close(ssl_ctx_st* context) noexcept
{
    SSL_CTX_free(context);
}

ssl_st* tls_accept(ssl_ctx_st* context, int fd) noexcept
{
    ssl_st* const session = SSL_new(context);
    if (session == nullptr) {
        return nullptr;
    }
    SSL_set_accept_state(session);
    if (SSL_set_fd(session, fd) != 1) {
        SSL_free(session);
        return nullptr;
    }
    return session;
}

void tls_free(ssl_st* session) noexcept
{
    SSL_free(session);
}

long tls_read(ssl_st* session, char* bytes, size_t bytes_count) noexcept
{
    ERR_clear_error();
    const int got = SSL_read(session, bytes, length_of(bytes_count));
    return got > 0 ? got : result_of(session, got);
}

long tls_write(ssl_st* session, const char* bytes, size_t bytes_count) noexcept
{
    ERR_clear_error();
    const int sent = SSL_write(session, bytes, length_of(bytes_count));
    const long result = sent > 0 ? sent : result_of(session, sent);
    return result == 0 ? kIoFailed : result;
}

void tls_end(ssl_st* session) noexcept
{
    ERR_clear_error();
    static_cast<void>(SSL_shutdown(session));
    ERR_clear_error();
}

}  // namespace aotx
