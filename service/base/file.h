// Purpose:  whole small files: read one, and replace one so that a crash leaves the old or the new.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace aotx {

// Read a whole regular file of at most bytes_max bytes. AOTX_ERR_NOT_FOUND: there is none;
// AOTX_ERR_LENGTH: it is larger; AOTX_ERR_SYSTEM: anything else, errno says why (EINVAL for what is
// no regular file). text is untouched on failure.
[[nodiscard]] int file_read(const char* path, size_t bytes_max, std::string* text) noexcept;

// Read a file that grants authority: as file_read, and AOTX_ERR_STATE unless it belongs to the
// effective user and nobody else can write it.
[[nodiscard]] int file_read_private(const char* path, size_t bytes_max, std::string* text) noexcept;

// Write "<path>.new" with the mode, flush it to the disk, rename it over path, and flush the
// directory. AOTX_ERR_SYSTEM: errno says why; path is then what it was.
[[nodiscard]] int file_replace(const std::string& path, std::string_view text,
                               unsigned mode) noexcept;

}  // namespace aotx
