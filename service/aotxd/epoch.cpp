// Purpose:  epochs, see epoch.h.
// Owns:     nothing.
// Thread:   main.
// Lifetime: once at start.
#include "service/aotxd/epoch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstring>

#include "aotx/handle.h"
#include "aotx/status.h"
#include "service/base/file.h"

namespace aotx {
namespace {

constexpr size_t kEpochBytesMax = 32;

int fail(const std::string& path, const std::string& what, int status, std::string* error)
{
    *error = path + ": " + what;
    return status;
}

}  // namespace

int state_lock(const std::string& directory, Fd* lock, std::string* error) noexcept
{
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail(directory, std::string("cannot be made: ") + strerror(errno), AOTX_ERR_SYSTEM,
                    error);
    }
    Fd held(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!held.valid()) {
        return fail(directory, strerror(errno), AOTX_ERR_SYSTEM, error);
    }
    if (flock(held.get(), LOCK_EX | LOCK_NB) != 0) {
        const bool is_taken = errno == EWOULDBLOCK;
        return fail(directory, is_taken ? "another device process uses it" : strerror(errno),
                    is_taken ? AOTX_ERR_STATE : AOTX_ERR_SYSTEM, error);
    }
    *lock = std::move(held);
    return AOTX_OK;
}

int epoch_next(const std::string& directory, uint64_t now_seconds, uint64_t* epoch,
               std::string* error) noexcept
{
    const std::string path = directory + "/epoch";
    std::string text;
    uint64_t stored = 0;
    const int read_status = file_read(path.c_str(), kEpochBytesMax, &text);
    if (read_status == AOTX_OK) {
        const size_t characters = text.empty() || text.back() != '\n' ? 0 : text.size() - 1;
        if (aotx_decimal_parse(text.data(), characters, &stored) != AOTX_OK) {
            return fail(path, "holds no number", AOTX_ERR_SYNTAX, error);
        }
    } else if (read_status == AOTX_ERR_LENGTH) {
        return fail(path, "holds no number", AOTX_ERR_SYNTAX, error);
    } else if (read_status != AOTX_ERR_NOT_FOUND) {
        return fail(path, strerror(errno), AOTX_ERR_SYSTEM, error);
    }
    if (stored == UINT64_MAX) {
        return fail(path, "no epoch is left", AOTX_ERR_RANGE, error);
    }

    const uint64_t next = stored + 1 > now_seconds ? stored + 1 : now_seconds;
    if (file_replace(path, std::to_string(next) + "\n", 0600) != AOTX_OK) {
        return fail(path, std::string("cannot be written: ") + strerror(errno), AOTX_ERR_SYSTEM,
                    error);
    }
    *epoch = next;
    return AOTX_OK;
}

}  // namespace aotx
