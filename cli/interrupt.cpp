// Purpose:  the handler of SIGINT and its pipe.
// Owns:     the pipe.
// Thread:   main; the handler runs on it.
// Lifetime: the process.
#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/exit_codes.h"

namespace aotx::cli {
namespace {

int pipe_ends[2] = {-1, -1};
volatile sig_atomic_t waiting = 0;

void on_interrupt(int)
{
    const int reason = errno;
    if (waiting != 0) {
        ::_exit(kExitInterrupted);
    }
    waiting = 1;
    const char byte = 0;
    // A full pipe is readable as well, so a byte that finds no room is not missed.
    if (::write(pipe_ends[1], &byte, 1) < 0) {
        errno = reason;
    }
    errno = reason;
}

}  // namespace

void catch_interrupts()
{
    if (pipe_ends[0] >= 0) {
        return;
    }
    if (::pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        std::abort();
    }
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, nullptr);
}

int interrupt_descriptor()
{
    return pipe_ends[0];
}

bool take_interrupt()
{
    char bytes[16];
    bool any = false;
    while (pipe_ends[0] >= 0 && ::read(pipe_ends[0], bytes, sizeof bytes) > 0) {
        any = true;
    }
    waiting = 0;
    return any;
}

bool wait_interrupt(int milliseconds)
{
    pollfd ready = {pipe_ends[0], POLLIN, 0};
    const int polled = ::poll(&ready, 1, milliseconds);
    return polled > 0 || (polled < 0 && errno == EINTR);
}

}  // namespace aotx::cli
