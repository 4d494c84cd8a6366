// Purpose:  whole small files, see file.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "service/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "aotx/status.h"
#include "service/base/fd.h"

namespace aotx {
namespace {

int read_checked(const char* path, size_t bytes_max, bool is_private, std::string* text) noexcept
{
    // O_NONBLOCK: a FIFO at this path must not hold the process up.
    const Fd file(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!file.valid()) {
        return errno == ENOENT ? AOTX_ERR_NOT_FOUND : AOTX_ERR_SYSTEM;
    }
    struct stat state = {};
    if (fstat(file.get(), &state) != 0) {
        return AOTX_ERR_SYSTEM;
    }
    if (!S_ISREG(state.st_mode)) {
        errno = EINVAL;
        return AOTX_ERR_SYSTEM;
    }
    if (is_private && (state.st_uid != geteuid() || (state.st_mode & (S_IWGRP | S_IWOTH)) != 0)) {
        return AOTX_ERR_STATE;
    }

    // Room for what the file says it holds and one byte more, which shows that it has grown.
    const size_t stated = state.st_size > 0 ? static_cast<size_t>(state.st_size) : 0;
    std::string bytes(std::min(stated, bytes_max) + 1, '\0');
    size_t held = 0;
    while (held <= bytes_max) {
        if (held == bytes.size()) {
            bytes.resize(std::min(held * 2, bytes_max + 1));
        }
        const ssize_t got = read(file.get(), bytes.data() + held, bytes.size() - held);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return AOTX_ERR_SYSTEM;
        }
        if (got == 0) {
            bytes.resize(held);
            *text = std::move(bytes);
            return AOTX_OK;
        }
        held += static_cast<size_t>(got);
    }
    return AOTX_ERR_LENGTH;
}

bool write_whole(int file, std::string_view text) noexcept
{
    while (!text.empty()) {
        const ssize_t put = write(file, text.data(), text.size());
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return false;
        }
        text.remove_prefix(static_cast<size_t>(put));
    }
    return true;
}

}  // namespace

int file_read(const char* path, size_t bytes_max, std::string* text) noexcept
{
    return read_checked(path, bytes_max, false, text);
}

int file_read_private(const char* path, size_t bytes_max, std::string* text) noexcept
{
    return read_checked(path, bytes_max, true, text);
}

int file_replace(const std::string& path, std::string_view text, unsigned mode) noexcept
{
    const std::string path_new = path + ".new";
    const size_t slash = path.rfind('/');
    const std::string directory_path = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const Fd directory(open(directory_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) {
        return AOTX_ERR_SYSTEM;
    }
    // What an earlier crash left goes first: its owner and mode may not be ours.
    if (unlink(path_new.c_str()) != 0 && errno != ENOENT) {
        return AOTX_ERR_SYSTEM;
    }
    const Fd file(open(path_new.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!file.valid()) {
        return AOTX_ERR_SYSTEM;
    }
    if (!write_whole(file.get(), text) || fsync(file.get()) != 0 ||
        rename(path_new.c_str(), path.c_str()) != 0) {
        const int kept_errno = errno;
        unlink(path_new.c_str());
        errno = kept_errno;
        return AOTX_ERR_SYSTEM;
    }
    return fsync(directory.get()) == 0 ? AOTX_OK : AOTX_ERR_SYSTEM;
}

}  // namespace aotx
