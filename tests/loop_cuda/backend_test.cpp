// Purpose:  what the CUDA backend promises beside the conformance tests: the seal, the budget,
// faults and restarts, plain refusals, programs, waits that never stand behind the loop.
// Owns:     nothing.
// Thread:   the test's thread is the broker thread.
// Lifetime: one run.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "cuda/loop/cuda_api.h"
#include "cuda/loop/cuda_tick_list.h"
#include "fake_cuda.h"
#include "fresh_cuda.h"
#include "tests/loop/harness.h"

using namespace aotx_test;

namespace {

const Id kUser = id_of(1);
const char* const kEndless = R"({"pieces":[{"hex":"61","delay_ms":2}],"repeat":true})";

std::string unusable(const aotx::CudaMachine& machine)
{
    char reason[256] = {};
    return aotx::cuda_usable(machine, reason, sizeof reason) ? "" : reason;
}

aotx_device_row device_row(Device& device)
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_DEVICE, nullptr, 0);
    const Reply reply = device.call(packet_of(head, {}));
    REQUIRE(reply.head.status == 200);
    aotx_device_row row = {};
    REQUIRE(aotx_device_check(reply.payload.data(), reply.payload.size(), &row) == AOTX_OK);
    return row;
}

uint64_t next_epoch(void* epoch) noexcept
{
    return ++*static_cast<uint64_t*>(epoch);
}

}  // namespace

TEST_CASE("machines that cannot run the backend are refused in plain words")
{
    const aotx::CudaMachine good = FakeCuda{}.machine;
    REQUIRE(unusable(good).empty());
    aotx::CudaMachine machine = good;
    machine.driver_version = 0;
    REQUIRE(unusable(machine) == "no CUDA driver (35)");
    machine = good;
    machine.driver_version = 12080;
    REQUIRE(unusable(machine) == "the CUDA driver serves 12.8, this build needs 13.0 or later");
    machine.runtime_version = 12080;
    REQUIRE(unusable(machine).empty());
    machine.driver_version = 12020;
    REQUIRE(unusable(machine) == "the CUDA driver serves 12.2, this build needs 12.4 or later");
    machine = good;
    machine.device_count = 0;
    REQUIRE(unusable(machine) == "a CUDA driver, but no GPU (100)");
    machine = good;
    machine.compute_major = 7;
    machine.compute_minor = 5;
    REQUIRE(unusable(machine).find("7.5") != std::string::npos);
    REQUIRE(unusable(machine).find("needs 8.0 or later") != std::string::npos);
    machine = good;
    machine.maps_registered = 0;
    REQUIRE(unusable(machine).find("host memory") != std::string::npos);
    REQUIRE(setenv("CUDA_LAUNCH_BLOCKING", "1", 1) == 0);
    REQUIRE(unusable(good).find("CUDA_LAUNCH_BLOCKING is set") != std::string::npos);
    REQUIRE(setenv("CUDA_LAUNCH_BLOCKING", "0", 1) == 0);
    REQUIRE(unusable(good).empty());
    REQUIRE(unsetenv("CUDA_LAUNCH_BLOCKING") == 0);
}

TEST_CASE("a GPU is taken exactly when the object holds code for it")
{
    const struct {
        std::vector<int> codes, ptx;
        int major, minor, driver, runtime;
        const char* refusal;  // null: taken
    } rows[] = {
        {{80, 86, 89, 90, 100, 120}, {100, 120}, 8, 0, 13000, 13000, nullptr},
        {{80, 86, 89, 90, 100, 120}, {100, 120}, 8, 7, 13000, 13000, nullptr},
        {{80, 86, 89, 90, 100, 120}, {100, 120}, 10, 3, 13000, 13020, nullptr},
        {{80, 86, 89, 90, 100, 120}, {100, 120}, 11, 0, 13000, 13000, nullptr},
        {{80, 86, 89, 90, 100, 120}, {100, 120}, 12, 1, 13000, 13020, nullptr},
        {{80, 86, 89, 90, 100, 120}, {100, 120}, 13, 0, 13020, 13000, nullptr},
        {{80, 86, 89, 90, 100, 120}, {100, 120}, 11, 0, 13000, 13020, "driver for CUDA 13.2"},
        {{80, 86, 89, 90, 100, 120}, {100, 120}, 13, 0, 13010, 13020, "driver for CUDA 13.2"},
        {{90}, {90}, 8, 9, 13000, 13000, "8.9, this build needs 9.0 or later"},
        {{90}, {90}, 12, 0, 13000, 13000, nullptr},
        {{80, 120}, {120}, 9, 0, 13000, 13000, "9.0, for which this build has no code"},
        {{86}, {86}, 8, 0, 13000, 13000, "8.0, this build needs 8.6 or later"},
        {{}, {}, 9, 0, 13000, 13000, "no code"},
    };
    for (const auto& row : rows) {
        INFO(row.major << "." << row.minor << " of " << row.codes.size());
        aotx::CudaMachine machine = FakeCuda{}.machine;
        std::fill(std::begin(machine.codes), std::end(machine.codes), 0);
        std::fill(std::begin(machine.ptx), std::end(machine.ptx), 0);
        std::copy(row.codes.begin(), row.codes.end(), machine.codes);
        std::copy(row.ptx.begin(), row.ptx.end(), machine.ptx);
        machine.compute_major = row.major;
        machine.compute_minor = row.minor;
        machine.driver_version = row.driver;
        machine.runtime_version = row.runtime;
        if (row.refusal == nullptr) {
            CHECK(unusable(machine).empty());
        } else {
            CHECK(unusable(machine).find(row.refusal) != std::string::npos);
        }
    }
}

TEST_CASE("a backend that is not there is told in a sentence")
{
    char reason[512] = {};
    REQUIRE(aotx::loop_backend_load("/nowhere/libaotx_cuda.so", reason, sizeof reason) == nullptr);
    REQUIRE(std::string(reason).find("not installed") != std::string::npos);
    REQUIRE(aotx::loop_backend_load("libm.so.6", reason, sizeof reason) == nullptr);
    REQUIRE(std::string(reason).find("has no aotx_loop_backend_v1") != std::string::npos);
}

TEST_CASE("the budget is counted before anything is taken, and its lines add up")
{
    const FreshCuda fresh;
    Device device;
    REQUIRE(std::string(aotx::loop_device(device.loop())) == "cuda");
    aotx::LoopConfig config;
    config.epoch = 3;
    config.backend = aotx::cuda_backend_table();
    aotx::LoopBudget budget;
    const char* reason = "";
    REQUIRE(aotx::loop_budget(config, &budget, &reason) == AOTX_OK);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < budget.lines_count; i++) {
        sum += budget.lines[i].bytes;
    }
    REQUIRE(sum == budget.total_bytes);
    config.epoch = 0;
    REQUIRE(aotx::loop_budget(config, &budget, &reason) == AOTX_ERR_RANGE);
}

TEST_CASE("after the seal only launches, callbacks and queries are made")
{
    const FreshCuda fresh;
    Device device;
    device.grant(1, {kUser});
    const uint64_t before = now_of(fake_cuda().setup_calls);
    const uint64_t launches = now_of(fake_cuda().launches);
    for (uint64_t i = 0; i < 40; i++) {
        REQUIRE(device.submit(kUser, id_of(100 + i), "hello", 5).head.status == 202);
        REQUIRE(device.finish(kUser, id_of(100 + i)).head.phase == AOTX_PHASE_COMPLETED);
    }
    REQUIRE(now_of(fake_cuda().setup_calls) == before);
    REQUIRE(now_of(fake_cuda().launches) > launches + 200);
    aotx::CudaCalls calls(fake_cuda_api());
    REQUIRE(!calls.sealed());
    calls.seal();
    REQUIRE(calls.sealed());
    REQUIRE(calls.query(nullptr) == 0);
}

TEST_CASE("an idle loop launches nothing")
{
    const FreshCuda fresh;
    Device device;
    device.grant(1, {kUser});
    REQUIRE(device.submit(kUser, id_of(5), "hello", 3).head.status == 202);
    REQUIRE(device.finish(kUser, id_of(5)).head.phase == AOTX_PHASE_COMPLETED);
    REQUIRE(!device.gather(50));
    const uint64_t launches = now_of(fake_cuda().launches);
    REQUIRE(!device.gather(200));
    REQUIRE(now_of(fake_cuda().launches) == launches);
}

TEST_CASE("memory that the GPU refuses is an error with its reason, and leaves nothing behind")
{
    const FreshCuda fresh;
    fake_cuda().refuse_allocation = true;
    aotx::LoopConfig config;
    config.epoch = 3;
    config.backend = aotx::cuda_backend_table();
    aotx::Loop* loop = nullptr;
    const char* reason = "";
    REQUIRE(aotx::loop_open(config, &loop, &reason) == AOTX_ERR_SYSTEM);
    REQUIRE(std::string(reason) == "out of memory");
    REQUIRE(loop == nullptr);
    REQUIRE(now_of(fake_cuda().resets) == 0);  // a model may be at work on the device
}

TEST_CASE(
    "a fault ends the epoch: everything posted and parked is answered 503, readiness is false")
{
    const FreshCuda fresh;
    Device device;
    device.grant(1, {kUser});
    REQUIRE(device.submit(kUser, id_of(7), "hello").head.status == 202);
    REQUIRE(device.finish(kUser, id_of(7)).head.phase == AOTX_PHASE_COMPLETED);
    device.post(3, device.watch_packet(
                       id_of(900), {device.watch_row(kUser, id_of(7), 24, AOTX_PHASE_COMPLETED)}));
    REQUIRE(aotx::loop_serving(device.loop()));
    fail_in(3);
    while (now_of(fake_cuda().resets) == 0) {
        (void)device.read(kUser, id_of(7));
    }
    REQUIRE(device.read(kUser, id_of(7)).head.status == 503);
    REQUIRE(!aotx::loop_serving(device.loop()));
    REQUIRE(device.take_reply(3).head.status == 503);
    REQUIRE(device.read(kUser, id_of(7)).head.status == 503);
    REQUIRE(device.submit(kUser, id_of(8), "hello").head.status == 503);
    REQUIRE(now_of(fake_cuda().resets) == 1);
    REQUIRE(aotx_word_load(&aotx::loop_ring(device.loop())->closed) == 1);
}

TEST_CASE("a device that may come back does so under a fresh epoch, three times and no more")
{
    const FreshCuda fresh;
    uint64_t epoch = 1000;
    aotx::LoopConfig config;
    config.fresh_epoch = next_epoch;
    config.fresh_epoch_context = &epoch;
    Device device(config);
    for (uint64_t restart = 1; restart <= 4; restart++) {
        device.grant(restart, {kUser});
        fail_in(1);
        while (now_of(fake_cuda().resets) < restart) {
            (void)device.read(kUser, id_of(7));  // 503, or what a tick before the fault answers
        }
        (void)device.read(kUser, id_of(7));  // behind the restart
        REQUIRE(aotx::loop_serving(device.loop()) == (restart <= 3));
        REQUIRE(aotx_word_load(&aotx::loop_ring(device.loop())->epoch) ==
                1000 + (restart <= 3 ? restart : 3));
        if (restart <= 3) {
            // The tables are empty again, an old handle's epoch is over.
            const Reply stale = device.read(kUser, id_of(7));
            REQUIRE((stale.head.status == 410 || stale.head.status == 403));
            REQUIRE(stale.head.runtime_epoch == 1000 + restart);
            const aotx_device_row row = device_row(device);
            REQUIRE(row.restarts == restart);
            REQUIRE(row.kind == AOTX_DEVICE_KIND_CUDA);
            REQUIRE(std::string(reinterpret_cast<const char*>(row.name)) == "a pretended GPU");
            REQUIRE(row.reason[0] == 0);
        } else {
            break;
        }
    }
}

TEST_CASE("a running answer ends with its device, and the next epoch serves")
{
    const FreshCuda fresh;
    uint64_t epoch = 50;
    aotx::LoopConfig config;
    config.fresh_epoch = next_epoch;
    config.fresh_epoch_context = &epoch;
    Device device(config, {kEndless});
    device.grant(1, {kUser});
    REQUIRE(device.submit(kUser, id_of(7), "hello", 100000).head.status == 202);
    fail_in(20);
    int refused = 0;
    for (int i = 0; i < 200 && refused == 0; i++) {
        refused = device.read(kUser, id_of(7)).head.status != 200 ? 1 : 0;
    }
    REQUIRE(refused == 1);
    REQUIRE(now_of(fake_cuda().resets) == 1);
    REQUIRE(aotx::loop_serving(device.loop()));
}

TEST_CASE("stopping needs no call that waits for the loop and comes within its time")
{
    const FreshCuda fresh;
    Device device({}, {kEndless});
    device.grant(1, {kUser});
    for (uint64_t i = 0; i < 8; i++) {
        REQUIRE(device.submit(kUser, id_of(20 + i), "hello", 100000).head.status == 202);
    }
    const uint64_t setup = now_of(fake_cuda().setup_calls);
    device.stop();
    REQUIRE(now_of(fake_cuda().setup_calls) == setup);
}

TEST_CASE("programs that break their own rules are refused")
{
    aotx::Program program = {};
    const char* reason = "";
    REQUIRE(!aotx::program_check(program, &reason));
    const uint32_t argument = 0;
    aotx::ProgramNode kernel = {};
    kernel.kind = aotx::kProgramKernel;
    kernel.grid[0] = kernel.grid[1] = kernel.grid[2] = 1;
    kernel.block = 32;
    kernel.arguments = &argument;
    kernel.arguments_bytes = sizeof argument;
    program.nodes[0] = kernel;
    program.nodes_count = 1;
    REQUIRE(aotx::program_check(program, &reason));
    struct Row {
        const char* name;
        void (*spoil)(aotx::Program*);
    };
    const Row rows[] = {
        {"block", [](aotx::Program* p) { p->nodes[0].block = 1025; }},
        {"grid", [](aotx::Program* p) { p->nodes[0].grid[1] = 65536; }},
        {"no arguments", [](aotx::Program* p) { p->nodes[0].arguments = nullptr; }},
        {"kernel with a body", [](aotx::Program* p) { p->nodes[0].body_nodes = 1; }},
        {"no kind", [](aotx::Program* p) { p->nodes[0].kind = aotx::ProgramNodeKind{}; }},
        {"unknown condition", [](aotx::Program* p) { p->nodes[0].kind = aotx::kProgramWhile; }},
        {"overlap of more than kernels",
         [](aotx::Program* p) {
             p->overlaps = 1;
             p->conditions_count = 1;
         }},
        {"overlap of 2", [](aotx::Program* p) { p->overlaps = 2; }},
        {"empty body",
         [](aotx::Program* p) {
             p->nodes[0].kind = aotx::kProgramIf;
             p->conditions_count = 1;
         }},
        {"body beyond the end",
         [](aotx::Program* p) {
             p->nodes[0].kind = aotx::kProgramIf;
             p->nodes[0].body_nodes = 1;
             p->conditions_count = 1;
         }},
    };
    for (const Row& row : rows) {
        INFO(row.name);
        aotx::Program spoiled = program;
        row.spoil(&spoiled);
        REQUIRE(!aotx::program_check(spoiled, &reason));
    }
}

TEST_CASE("a burst is answered by rounds of one launch")
{
    const FreshCuda fresh;
    aotx::LoopConfig config;
    config.mailboxes_count = 300;
    Device device(config);
    device.grant(1, {kUser});
    std::atomic_ref<bool>(fake_cuda().tracing).store(true);
    const uint64_t launches = now_of(fake_cuda().launches);
    for (uint32_t mailbox = 1; mailbox < 300; mailbox++) {
        device.post(mailbox, device.request_packet(AOTX_OPERATION_READ, kUser, id_of(1)), false);
    }
    device.ring();
    for (uint32_t mailbox = 1; mailbox < 300; mailbox++) {
        REQUIRE(device.take_reply(mailbox).head.status == 404);
    }
    // 299 mailboxes, 64 a round: at least 5 ticks, in one launch of the loop around them.
    REQUIRE(fake_cuda().trace.size() >= 5);
    REQUIRE(now_of(fake_cuda().launches) - launches <= 3);
    for (const uint32_t kernel : fake_cuda().trace) {
        REQUIRE(kernel == aotx::kTickKernel_tick);
    }
}
