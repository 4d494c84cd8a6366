// Purpose:  the gateway as a child process, see gateway_process.h.
// Owns:     nothing beyond its object.
// Thread:   main.
// Lifetime: from open to stop.
#include "service/aotxd/gateway_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "aotx/status.h"
#include "service/base/check.h"
#include "service/base/clock.h"
#include "service/base/log.h"
#include "service/base/notify.h"

extern char** environ;

namespace aotx {
namespace {

constexpr uint64_t kPauseFirstNs = 100 * kMillisecondNs;
constexpr uint64_t kPauseMaxNs = 5 * kSecondNs;
constexpr uint64_t kHealthyNs = 10 * kSecondNs;  // a life this long starts the pauses over

// This process's environment with another NOTIFY_SOCKET.
std::vector<char*> environment_with(std::string* notify) noexcept
{
    std::vector<char*> variables;
    for (char** at = environ; *at != nullptr; at++) {
        if (std::strncmp(*at, "NOTIFY_SOCKET=", 14) != 0) {
            variables.push_back(*at);
        }
    }
    variables.push_back(notify->data());
    variables.push_back(nullptr);
    return variables;
}

// In the child, between fork and exec: other threads' locks may be held for ever here, so only
// system calls.
[[noreturn]] void become(const char* program, char* const* words, char* const* variables,
                         pid_t parent) noexcept
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(1);  // it died before the line above
    }
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
    }
    execve(program, words, variables);
    _exit(127);
}

// Wait until a process ends or another descriptor becomes readable. False: neither in time.
bool wait_for_end(pid_t process, int interrupt_fd, uint32_t seconds) noexcept
{
    const Fd ended(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
    pollfd waits[2] = {{ended.get(), POLLIN, 0}, {interrupt_fd, POLLIN, 0}};
    const int found = poll(waits, 2, static_cast<int>(seconds * 1000));
    return found > 0 && (waits[0].revents & POLLIN) != 0;
}

}  // namespace

int GatewayProcess::open(const std::string& program_path, const std::string& config_path) noexcept
{
    if (access(program_path.c_str(), X_OK) != 0) {
        return AOTX_ERR_NOT_FOUND;
    }
    program_path_ = program_path;
    config_path_ = config_path;
    timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    ready_ = notify_listen(&ready_name_);
    return timer_.valid() && ready_.valid() ? AOTX_OK : AOTX_ERR_SYSTEM;
}

void GatewayProcess::start() noexcept
{
    AOTX_CHECK(process_ < 0);
    std::string notify = "NOTIFY_SOCKET=" + ready_name_;
    const std::vector<char*> variables = environment_with(&notify);
    std::string option = "--config";
    char* const words[] = {program_path_.data(), option.data(), config_path_.data(), nullptr};
    const pid_t parent = getpid();
    started_ns_ = clock_monotonic_ns();
    const pid_t process = fork();
    if (process == 0) {
        become(program_path_.c_str(), words, variables.data(), parent);
    }
    if (process < 0) {
        log_line(LogLevel::Error, "gateway cannot be started: %s", strerror(errno));
        restart_later();
        return;
    }
    process_ = process;
}

void GatewayProcess::restart_later() noexcept
{
    const bool was_healthy = clock_monotonic_ns() - started_ns_ >= kHealthyNs;
    const uint64_t doubled = pause_ns_ * 2 < kPauseMaxNs ? pause_ns_ * 2 : kPauseMaxNs;
    pause_ns_ = pause_ns_ == 0 || was_healthy ? kPauseFirstNs : doubled;
    itimerspec until = {};
    until.it_value.tv_sec = static_cast<time_t>(pause_ns_ / kSecondNs);
    until.it_value.tv_nsec = static_cast<long>(pause_ns_ % kSecondNs);
    AOTX_CHECK(timerfd_settime(timer_.get(), 0, &until, nullptr) == 0);
}

void GatewayProcess::child_ended() noexcept
{
    int status = 0;
    if (process_ < 0 || waitpid(process_, &status, WNOHANG) != process_) {
        return;
    }
    process_ = -1;
    restart_later();
    const bool by_signal = WIFSIGNALED(status);
    log_line(LogLevel::Warning, "gateway ended with %s %d; next start in %u ms",
             by_signal ? "signal" : "status", by_signal ? WTERMSIG(status) : WEXITSTATUS(status),
             static_cast<uint32_t>(pause_ns_ / kMillisecondNs));
}

void GatewayProcess::timer_rang() noexcept
{
    uint64_t times = 0;
    if (read(timer_.get(), &times, sizeof times) > 0 && process_ < 0) {
        start();
    }
}

bool GatewayProcess::became_ready() noexcept
{
    return notify_is_ready(ready_, process_);
}

void GatewayProcess::send_signal(int number) const noexcept
{
    if (process_ > 0) {
        kill(process_, number);
    }
}

void GatewayProcess::stop(uint32_t seconds, int interrupt_fd) noexcept
{
    if (process_ < 0) {
        return;
    }
    kill(process_, SIGTERM);
    if (!wait_for_end(process_, interrupt_fd, seconds)) {
        kill(process_, SIGKILL);
    }
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
}

}  // namespace aotx
