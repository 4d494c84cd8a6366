// Purpose:  aotxd, the device process: models, loop, broker, and the gateway as its child.
// Owns:     all of them, in the order in which they need each other.
// Thread:   main; the loop and the broker run their own.
// Lifetime: until SIGTERM or SIGINT.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cinttypes>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "aotx/status.h"
#include "service/aotxd/device.h"
#include "service/aotxd/epoch.h"
#include "service/aotxd/gateway_process.h"
#include "service/base/cpus.h"
#include "service/base/digest.h"
#include "service/base/log.h"
#include "service/base/notify.h"

namespace aotx {
namespace {

constexpr int kExitDone = 0;
constexpr int kExitUsage = 2;
constexpr int kExitConfig = 3;
constexpr int kExitStart = 4;

constexpr char kUsage[] =
    "usage: aotxd --config PATH [--no-gateway]\n"
    "       aotxd --config PATH --check [--json]\n"
    "Runs the device: its models, its tables, and the socket through which the gateway reaches\n"
    "it; the gateway is started as a child. SIGHUP reads the grant file again, SIGTERM stops.\n"
    "  --check       print the memory budget and its sum, start nothing\n"
    "  --json        print it as JSON\n"
    "  --no-gateway  start no gateway, whatever the configuration says\n";

struct Arguments {
    const char* config_path = nullptr;
    bool is_check = false;
    bool is_json = false;
    bool has_gateway = true;
    bool is_help = false;
};

bool arguments_read(int count, char** words, Arguments* arguments) noexcept
{
    for (int i = 1; i < count; i++) {
        const char* const word = words[i];
        if (std::strcmp(word, "--config") == 0 && i + 1 < count) {
            arguments->config_path = words[++i];
        } else if (std::strncmp(word, "--config=", 9) == 0) {
            arguments->config_path = word + 9;
        } else if (std::strcmp(word, "--check") == 0) {
            arguments->is_check = true;
        } else if (std::strcmp(word, "--json") == 0) {
            arguments->is_json = true;
        } else if (std::strcmp(word, "--no-gateway") == 0) {
            arguments->has_gateway = false;
        } else if (std::strcmp(word, "--help") == 0 || std::strcmp(word, "-h") == 0) {
            arguments->is_help = true;
        } else {
            return false;
        }
    }
    return arguments->is_help || arguments->config_path != nullptr;
}

// Everything of one activation. Members are declared in the order of their needs: the models
// outlive the loop, the loop outlives the broker.
struct Service {
    Arguments arguments;
    Config config;
    std::vector<Model> models;
    Fd state;
    Fd signals;
    const LoopBackend* backend = nullptr;  // null: the CPU runs the core
    std::string cpu_reason;                // why it does although a GPU was allowed
    Loop* loop = nullptr;
    bool is_loop_started = false;
    Broker* broker = nullptr;
    std::string grants;  // the frame that was installed last
    GatewayProcess gateway;
    bool has_gateway = false;
    bool is_ready = false;
};

int fail(int exit_code, const std::string& error) noexcept
{
    log_line(LogLevel::Error, "%s", error.c_str());
    return exit_code;
}

uint64_t mapped_bytes(const Service& service) noexcept
{
    uint64_t bytes = 0;
    for (const Model& model : service.models) {
        bytes += model.mapped_bytes;
    }
    return bytes;
}

// Signals arrive through a descriptor, in this thread only; every thread inherits the mask.
bool signals_open(Fd* signals) noexcept
{
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) {
        sigaddset(&set, number);
    }
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
        return false;
    }
    signals->reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    return signals->valid();
}

// The CPU serves because no GPU can. Clients are told the sentence without what stands in
// parentheses when that names a place in this machine.
void cpu_serves(Service* service, const char* reason) noexcept
{
    service->backend = nullptr;
    service->cpu_reason = reason;
    const size_t detail = service->cpu_reason.find(" (");
    if (service->cpu_reason.find('/') != std::string::npos && detail != std::string::npos) {
        service->cpu_reason.resize(detail);
    }
    log_line(LogLevel::Info, "%s; the CPU backend serves", reason);
}

// `auto` takes a usable GPU and else the CPU, saying why; `cuda` insists.
bool backend_pick(Service* service, std::string* error) noexcept
{
    const std::string& device = service->config.device.device;
    if (device == "cpu") {
        return true;
    }
    // The backend overrules it when it is loaded, so it is read before and told once that serves.
    const char* const loading = std::getenv("CUDA_MODULE_LOADING");
    const bool is_lazy = loading != nullptr && std::strcmp(loading, "LAZY") == 0;
    char reason[512] = {};
    service->backend = loop_backend_load(nullptr, reason, sizeof reason);
    if (service->backend == nullptr && device == "cuda") {
        *error = std::string("device.device is cuda: ") + reason;
        return false;
    }
    if (service->backend == nullptr) {
        cpu_serves(service, reason);
    } else if (is_lazy) {
        log_line(
            LogLevel::Info,
            "CUDA_MODULE_LOADING=LAZY is overruled: device code that is loaded at its first use "
            "would wait for the loop, so all of it is loaded now");
    }
    return true;
}

// A GPU that comes back after a fault serves under an epoch of its own and knows no grants.
uint64_t epoch_fresh(void* context) noexcept
{
    const Service* const service = static_cast<const Service*>(context);
    std::string error;
    uint64_t epoch = 0;
    if (epoch_next(service->config.device.state_dir, static_cast<uint64_t>(std::time(nullptr)),
                   &epoch, &error) != AOTX_OK) {
        log_line(LogLevel::Error, "%s", error.c_str());
        return 0;
    }
    kill(getpid(), SIGHUP);  // the main thread installs the grants again
    return epoch;
}

int check(Service* service) noexcept
{
    LoopBudget budget = {};
    const char* reason = "";
    LoopConfig config = loop_config(service->config, service->models, 1, 0);
    config.backend = service->backend;
    if (loop_budget(config, &budget, &reason) != AOTX_OK) {
        return fail(kExitConfig, reason);
    }
    budget_print(budget, mapped_bytes(*service), service->arguments.is_json, stdout);
    return std::fflush(stdout) == 0 ? kExitDone : kExitStart;
}

int loop_up(Service* service) noexcept
{
    std::string error;
    uint64_t epoch = 0;
    uint64_t seed = 0;
    if (state_lock(service->config.device.state_dir, &service->state, &error) != AOTX_OK ||
        epoch_next(service->config.device.state_dir, static_cast<uint64_t>(std::time(nullptr)),
                   &epoch, &error) != AOTX_OK) {
        return fail(kExitStart, error);
    }
    random_bytes(&seed, sizeof seed);
    LoopConfig config = loop_config(service->config, service->models, epoch, seed);
    config.backend = service->backend;
    config.fresh_epoch = epoch_fresh;
    config.fresh_epoch_context = service;
    config.cpu_reason = service->cpu_reason.c_str();
    LoopBudget budget = {};
    const char* reason = "";
    int opened = loop_budget(config, &budget, &reason);
    if (opened == AOTX_OK) {
        opened = loop_open(config, &service->loop, &reason);
    }
    // A GPU that is there but gives no memory, say, is as good as none where the choice is ours.
    if (opened == AOTX_ERR_SYSTEM && config.backend != nullptr &&
        service->config.device.device == "auto") {
        cpu_serves(service, (std::string("the GPU could not be opened: ") + reason).c_str());
        config.backend = nullptr;
        config.cpu_reason = service->cpu_reason.c_str();
        opened = loop_budget(config, &budget, &reason);
        if (opened == AOTX_OK) {
            opened = loop_open(config, &service->loop, &reason);
        }
    }
    if (opened != AOTX_OK) {
        return fail(kExitStart, reason);
    }
    if (loop_start(service->loop) != AOTX_OK) {
        return fail(kExitStart, std::string("the loop's threads: ") + strerror(errno));
    }
    service->is_loop_started = true;
    log_line(LogLevel::Info,
             "epoch %" PRIu64 " on %s, %u models, memory budget %" PRIu64 " bytes and %" PRIu64
             " mapped",
             epoch, loop_device(service->loop), config.models_count, budget.total_bytes,
             mapped_bytes(*service));
    return kExitDone;
}

int broker_up(Service* service) noexcept
{
    BrokerOptions options;
    options.socket_path = service->config.device.socket_path;
    options.mailboxes = service->config.device.mailboxes;
    options.spin_us = service->config.broker.spin_us;
    options.cpus = service->config.broker.cpus;
    if (broker_open(options, broker_device(service->loop), &service->broker) != AOTX_OK ||
        broker_start(service->broker) != AOTX_OK) {
        return fail(kExitStart, std::string("the broker: ") + strerror(errno));
    }
    std::string error;
    const std::string& path = service->config.device.grants_path;
    const int granted = grants_install(path, service->broker, &service->grants, &error);
    if (granted == AOTX_ERR_NOT_FOUND) {
        log_line(LogLevel::Warning, "%s; nobody may do anything until SIGHUP finds one",
                 error.c_str());
    } else if (granted != AOTX_OK) {
        return fail(kExitStart, error);
    }
    if (broker_listen(service->broker, &error) != AOTX_OK) {
        return fail(kExitStart, error);
    }
    return kExitDone;
}

void became_ready(Service* service) noexcept
{
    if (!service->is_ready) {
        service->is_ready = true;
        log_line(LogLevel::Info, "ready");
        notify_send("READY=1");
    }
}

int gateway_up(Service* service) noexcept
{
    service->has_gateway = service->arguments.has_gateway && service->config.gateway.enabled;
    if (!service->has_gateway) {
        became_ready(service);
        return kExitDone;
    }
    std::string program = service->config.gateway.program_path;
    if (program.empty()) {
        program = program_directory() + "aotx-gateway";
    }
    // The child may be started again after this process changed nothing but time, so the name must
    // not depend on anything that could differ then.
    char* const config_path = realpath(service->arguments.config_path, nullptr);
    const std::string whole_path =
        config_path == nullptr ? service->arguments.config_path : config_path;
    free(config_path);
    if (service->gateway.open(program, whole_path) != AOTX_OK) {
        return fail(kExitStart, program + ": " + strerror(errno));
    }
    service->gateway.start();
    return kExitDone;
}

void reload(Service* service) noexcept
{
    std::string error;
    const std::string& path = service->config.device.grants_path;
    if (grants_install(path, service->broker, &service->grants, &error) != AOTX_OK) {
        log_line(LogLevel::Error, "%s; the installed grants stay", error.c_str());
        return;
    }
    service->gateway.send_signal(SIGHUP);
}

// False: time to stop.
bool signals_handle(Service* service) noexcept
{
    signalfd_siginfo signal_info = {};
    while (read(service->signals.get(), &signal_info, sizeof signal_info) ==
           static_cast<ssize_t>(sizeof signal_info)) {
        switch (signal_info.ssi_signo) {
            case SIGCHLD:
                service->gateway.child_ended();
                break;
            case SIGHUP:
                reload(service);
                break;
            default:
                return false;
        }
    }
    return true;
}

void serve(Service* service) noexcept
{
    pollfd waits[3] = {{service->signals.get(), POLLIN, 0},
                       {service->gateway.timer_fd(), POLLIN, 0},
                       {service->gateway.ready_fd(), POLLIN, 0}};
    for (;;) {
        const int found = poll(waits, 3, -1);
        if (found < 0) {
            continue;  // EINTR: a stop and a continue of the whole process
        }
        if ((waits[0].revents & POLLIN) != 0 && !signals_handle(service)) {
            return;
        }
        if ((waits[1].revents & POLLIN) != 0) {
            service->gateway.timer_rang();
        }
        if ((waits[2].revents & POLLIN) != 0 && service->gateway.became_ready()) {
            became_ready(service);
        }
    }
}

void bring_down(Service* service) noexcept
{
    notify_send("STOPPING=1");
    if (service->has_gateway) {
        service->gateway.stop(service->config.device.stop_seconds, service->signals.get());
    }
    if (service->broker != nullptr) {
        broker_close(service->broker);
    }
    if (service->is_loop_started) {
        loop_stop(service->loop);
    }
    if (service->loop != nullptr) {
        loop_close(service->loop);
    }
}

int run(Service* service) noexcept
{
    std::string error;
    if (config_load(service->arguments.config_path, &service->config, &error) != AOTX_OK) {
        return fail(kExitConfig, error);
    }
    // Before anything starts a thread, so that every one inherits it.
    const std::string& cpus = service->config.device.cpus;
    if (cpus_place(cpus) != AOTX_OK) {
        return fail(kExitConfig, "device.cpus = \"" + cpus + "\": " + std::strerror(errno));
    }
    if (!backend_pick(service, &error)) {
        return fail(kExitConfig, error);
    }
    // Where the core runs, models run too; with `auto` one that the GPU cannot take stays on the
    // CPU.
    const std::string models_device =
        service->backend == nullptr ? "cpu" : service->config.device.device;
    if (models_load(service->config, models_device, &service->models, &error) != AOTX_OK) {
        return fail(service->arguments.is_check ? kExitConfig : kExitStart, error);
    }
    if (service->arguments.is_check) {
        return check(service);
    }
    for (const auto step : {loop_up, broker_up, gateway_up}) {
        const int exit_code = step(service);
        if (exit_code != kExitDone) {
            bring_down(service);
            return exit_code;
        }
    }
    serve(service);
    log_line(LogLevel::Info, "stopping");
    const bool is_lost = !loop_serving(service->loop);
    bring_down(service);
    if (is_lost) {
        std::fflush(nullptr);
        _exit(kExitDone);  // what runs at an ordinary exit would wait for a GPU that hangs
    }
    return kExitDone;
}

}  // namespace
}  // namespace aotx

int main(int count, char** words)
{
    aotx::log_start("aotxd");
    aotx::Service service;
    if (!aotx::arguments_read(count, words, &service.arguments)) {
        std::fputs(aotx::kUsage, stderr);
        return aotx::kExitUsage;
    }
    if (service.arguments.is_help) {
        std::fputs(aotx::kUsage, stdout);
        return aotx::kExitDone;
    }
    // Before the models: their threads must inherit the mask.
    if (!aotx::signals_open(&service.signals)) {
        return aotx::fail(aotx::kExitStart, std::string("signals: ") + std::strerror(errno));
    }
    return aotx::run(&service);
}
