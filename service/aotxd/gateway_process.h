// Purpose:  the gateway as a child process: started, watched, started again when it dies, stopped.
// Owns:     the child and the socket on which it says that it is ready.
// Thread:   main.
// Lifetime: from open to stop.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "service/base/fd.h"

namespace aotx {

class GatewayProcess {
public:
    // Name the program and the configuration that it is started with. AOTX_ERR_NOT_FOUND: the
    // program cannot be executed; AOTX_ERR_SYSTEM: no descriptor; errno says why.
    [[nodiscard]] int open(const std::string& program_path,
                           const std::string& config_path) noexcept;

    // Start it now, or when that fails, after the pause. The child ends when this process does,
    // however it ends, so that a next activation finds its address free.
    void start() noexcept;

    // A child of this process has ended; if it was the gateway, start it again after a pause that
    // doubles with every early death.
    void child_ended() noexcept;

    // The pause is over.
    void timer_rang() noexcept;

    // Whether it has said that it serves; true once for each start.
    [[nodiscard]] bool became_ready() noexcept;

    // Pass a signal on to it, if it runs.
    void send_signal(int number) const noexcept;

    // Ask it to end, wait for at most this long, then kill it. A signal that waits on
    // interrupt_fd ends the wait early. No restart afterwards.
    void stop(uint32_t seconds, int interrupt_fd) noexcept;

    // Readable when timer_rang, or became_ready, is to be called.
    int timer_fd() const noexcept { return timer_.get(); }
    int ready_fd() const noexcept { return ready_.get(); }

private:
    void restart_later() noexcept;

    std::string program_path_;
    std::string config_path_;
    std::string ready_name_;
    Fd timer_;
    Fd ready_;
    pid_t process_ = -1;
    uint64_t started_ns_ = 0;
    uint64_t pause_ns_ = 0;
};

}  // namespace aotx
