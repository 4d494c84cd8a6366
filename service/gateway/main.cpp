// Purpose:  aotx-gateway --config PATH: the gateway as a process of its own.
// Owns:     the server for the life of the process.
// Thread:   main.
// Lifetime: until SIGTERM or SIGINT; SIGHUP reads the grant file again.
#include <errno.h>
#include <signal.h>
#include <string.h>

#include <cstdio>
#include <memory>
#include <string>

#include "server.h"
#include "service/base/cpus.h"
#include "service/base/log.h"
#include "service/base/notify.h"
#include "service/config/config.h"

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitConfig = 3;
constexpr int kExitStart = 4;

aotx::Server* running = nullptr;  // for the signal handlers; set before they are

void on_stop(int)
{
    running->stop();
}

void on_reload(int)
{
    running->reload();
}

void signals_open()
{
    struct sigaction action = {};
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    action.sa_handler = on_stop;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    action.sa_handler = on_reload;
    sigaction(SIGHUP, &action, nullptr);
    action.sa_handler = SIG_IGN;  // a TLS write to a peer that has gone is an error, not an end
    sigaction(SIGPIPE, &action, nullptr);
}

// The same signals once more, while the server that their handlers would ask goes away: when a
// parent of several threads is killed, each of them sends its death signal.
void signals_close()
{
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
        signal(number, SIG_IGN);
    }
}

}  // namespace

int main(int argc, char** argv)
{
    aotx::log_start("aotx-gateway");
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        std::puts(
            "usage: aotx-gateway --config PATH\n"
            "Serves HTTP for a running aotxd. SIGHUP reads the grant file again; SIGTERM\n"
            "lets answers in progress end and stops.");
        return 0;
    }
    if (argc != 3 || strcmp(argv[1], "--config") != 0) {
        std::fputs("usage: aotx-gateway --config PATH\n", stderr);
        return kExitUsage;
    }
    aotx::Config config;
    std::string error;
    if (aotx::config_load(argv[2], &config, &error) != AOTX_OK) {
        aotx::log_line(aotx::LogLevel::Error, "%s", error.c_str());
        return kExitConfig;
    }
    const std::string& cpus = config.gateway.cpus;
    if (aotx::cpus_place(cpus) != AOTX_OK) {
        aotx::log_line(aotx::LogLevel::Error, "gateway.cpus = \"%s\": %s", cpus.c_str(),
                       strerror(errno));
        return kExitConfig;
    }
    const auto server = std::make_unique<aotx::Server>();
    if (server->open(config, &error) != AOTX_OK) {
        aotx::log_line(aotx::LogLevel::Error, "%s", error.c_str());
        return kExitStart;
    }
    running = server.get();
    signals_open();
    aotx::log_line(aotx::LogLevel::Info, "listening on %s", config.gateway.bind.c_str());
    aotx::notify_send("READY=1");
    server->run();
    signals_close();
    return 0;
}
