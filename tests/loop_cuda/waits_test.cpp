// Purpose:  nothing that the service does waits for a loop that is at work: over start, requests, a
// cancellation, a plugin that is loaded, a fault, a restart and a stop, no call that waits for the
// whole device is made while a launch is resident.
// Owns:     nothing.
// Thread:   the test's thread is the broker thread.
// Lifetime: one run.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "fresh_cuda.h"
#include "tests/loop/harness.h"

using namespace aotx_test;

namespace {

const Id kUser = id_of(1);
const char* const kEndless = R"({"pieces":[{"hex":"61","delay_ms":1}],"repeat":true})";
constexpr uint32_t kEndlessRole = AOTX_MODEL_ROLE_LANGUAGE_Q4;

uint64_t next_epoch(void* epoch) noexcept
{
    return ++*static_cast<uint64_t*>(epoch);
}

// CUDA_MODULE_LOADING as a user may have set it; null: not at all.
struct LoadingMode {
    explicit LoadingMode(const char* mode)
    {
        REQUIRE((mode == nullptr ? unsetenv("CUDA_MODULE_LOADING")
                                 : setenv("CUDA_MODULE_LOADING", mode, 1)) == 0);
    }
    ~LoadingMode() { unsetenv("CUDA_MODULE_LOADING"); }
    LoadingMode(const LoadingMode&) = delete;
    LoadingMode& operator=(const LoadingMode&) = delete;
};

Bytes of_epoch(Bytes packet, uint64_t epoch)
{
    std::memcpy(packet.data() + offsetof(aotx_request_head, runtime_epoch), &epoch, sizeof epoch);
    return packet;
}

void endless_begin(Device* device, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        REQUIRE(
            device->submit(kUser, id_of(first + i), "hello", 100000, kEndlessRole).head.status ==
            202);
    }
}

// Fail the device while answers run: what is parked and posted is told 503, and the next epoch
// serves whole answers.
void fault_and_return(Device* device, uint64_t epoch_next)
{
    device->post(3, device->watch_packet(id_of(900), {device->watch_row(kUser, id_of(20), 0,
                                                                        AOTX_PHASE_CANCELLED)}));
    device->take_reply(3);  // its state, at once
    device->post(3, device->watch_packet(id_of(900), {device->watch_row(kUser, id_of(7), 24,
                                                                        AOTX_PHASE_COMPLETED)}));
    fail_in(1);
    uint32_t refused = 0;
    while (now_of(fake_cuda().resets) == 0) {
        const uint32_t status = device->read(kUser, id_of(20)).head.status;
        refused = status != 200 ? status : refused;
    }
    REQUIRE(device->take_reply(3).head.status == 503);
    REQUIRE((refused == 0 || refused == 503));
    while (!aotx::loop_serving(device->loop())) {
        std::this_thread::yield();
    }
    device->grant(5, {kUser});
    REQUIRE(device->read(kUser, id_of(20)).head.status == 410);
    const Bytes packet = of_epoch(device->submit_packet(kUser, id_of(60), "hello"), epoch_next);
    REQUIRE(device->call(packet).head.status == 202);
    Reply reply;
    do {
        reply = device->call(
            of_epoch(device->request_packet(AOTX_OPERATION_READ, kUser, id_of(60)), epoch_next));
        REQUIRE(reply.head.status == 200);
    } while (reply.head.phase < AOTX_PHASE_COMPLETED);
    REQUIRE(reply.text() == "This answer is scripted.");
}

}  // namespace

TEST_CASE("no call waits for the device while the loop is at work, whatever the loading mode")
{
    for (const char* mode : {static_cast<const char*>(nullptr), "LAZY", "EAGER", "DEFAULT"}) {
        for (const bool asynchronous : {false, true}) {
            INFO((mode == nullptr ? "unset" : mode) << (asynchronous ? ", on a stream" : ""));
            const FreshCuda fresh;
            const LoadingMode loading(mode);
            fake_cuda().asynchronous = asynchronous;
            uint64_t epoch = 1000;
            aotx::LoopConfig config;
            config.fresh_epoch = next_epoch;
            config.fresh_epoch_context = &epoch;
            Device device(config, {"{}", kEndless});
            CHECK(std::string(std::getenv("CUDA_MODULE_LOADING")) == "EAGER");
            device.grant(1, {kUser});
            REQUIRE(device.submit(kUser, id_of(7), "hello").head.status == 202);
            REQUIRE(device.finish(kUser, id_of(7)).text() == "This answer is scripted.");
            endless_begin(&device, 20, 6);
            const uint64_t setup = now_of(fake_cuda().setup_calls);
            frt::LoadedModel plugin;
            REQUIRE(plugin.open(AOTX_EXAMPLE_LIBRARY, "{}") == frt::LoadStatus::loaded);
            REQUIRE(device.cancel(kUser, id_of(25)).head.status == 200);
            REQUIRE(device.finish(kUser, id_of(25)).head.phase == AOTX_PHASE_CANCELLED);
            REQUIRE(now_of(fake_cuda().setup_calls) == setup);
            fault_and_return(&device, 1001);
            REQUIRE(now_of(fake_cuda().waits) == 0);
            endless_begin(&device, 0, 0);
            device.stop();
            REQUIRE(fake_cuda().lazy_loads == 0);
        }
    }
}

TEST_CASE("what others ask of the device ends while the loop is busy, because every launch ends")
{
    const FreshCuda fresh;
    fake_cuda().asynchronous = true;
    Device device({}, {"{}", kEndless});
    device.grant(1, {kUser});
    endless_begin(&device, 20, 4);
    std::atomic<bool> ended = false;
    std::thread other([&ended] {
        // Pinned allocation and free, device free, memory query, a second context, first use of a
        // kernel of somebody else's module: all of them wait for what was launched before.
        for (int i = 0; i < 50; i++) {
            fake_foreign_call();
        }
        ended = true;
    });
    while (!ended) {
        REQUIRE(device.read(kUser, id_of(20)).head.status == 200);
    }
    other.join();
    device.stop();
}

TEST_CASE("a launch that never ends is a failed device: refused, told, stopped, and left alone")
{
    const FreshCuda fresh;
    fake_cuda().asynchronous = true;
    uint64_t epoch = 1000;
    {
        aotx::LoopConfig config;
        config.fresh_epoch = next_epoch;
        config.fresh_epoch_context = &epoch;
        config.tick_ms_max = 300;
        Device device(config, {"{}", kEndless});
        device.grant(1, {kUser});
        endless_begin(&device, 20, 2);
        const uint64_t setup = now_of(fake_cuda().setup_calls);
        std::atomic_ref<uint32_t>(fake_cuda().held).store(1);
        while (std::atomic_ref<uint32_t>(fake_cuda().stuck).load() == 0) {
            std::this_thread::yield();
        }
        device.post(3, device.request_packet(AOTX_OPERATION_READ, kUser, id_of(20)));
        aotx::LoopTelemetry telemetry;
        aotx::loop_telemetry(device.loop(), &telemetry);  // does not wait for the launch
        CHECK(aotx::loop_serving(device.loop()));
        CHECK(telemetry.operations > 0);
        (void)fake_cuda_api()->unregister_host(nullptr);  // proof that such a call is noticed
        CHECK(now_of(fake_cuda().waits) == 1);
        fake_cuda().waits = 0;
        CHECK(device.take_reply(3).head.status == 503);
        CHECK(!aotx::loop_serving(device.loop()));
        CHECK(device.read(kUser, id_of(20)).head.status == 503);
        CHECK(aotx_word_load(&aotx::loop_ring(device.loop())->closed) == 1);
        device.stop();
        CHECK(now_of(fake_cuda().setup_calls) == setup + 1);  // each would hang
        CHECK(now_of(fake_cuda().resets) == 0);
        CHECK(epoch == 1000);
    }
    fake_abandoned();
}

TEST_CASE("a device that a model's step has hung is lost to the loop too, and is left alone")
{
    const FreshCuda fresh;
    uint64_t epoch = 1000;
    aotx::LoopConfig config;
    config.fresh_epoch = next_epoch;
    config.fresh_epoch_context = &epoch;
    {
        Device device(config, {"{}", kEndless});
        device.grant(1, {kUser});
        endless_begin(&device, 20, 2);
        const uint64_t setup = now_of(fake_cuda().setup_calls);
        fake_cuda_api()->abandon();
        while (device.read(kUser, id_of(20)).head.status != 503) {
        }
        CHECK(!aotx::loop_serving(device.loop()));
        CHECK(aotx_word_load(&aotx::loop_ring(device.loop())->closed) == 1);
        device.stop();
        CHECK(now_of(fake_cuda().setup_calls) == setup);
        CHECK(now_of(fake_cuda().resets) == 0);
        CHECK(epoch == 1000);
    }
    fake_abandoned();
}

TEST_CASE("a device that is reset while the loop takes it is not taken, nor reset again")
{
    const FreshCuda fresh;
    fake_cuda().reset_in = 1;
    aotx::LoopConfig config;
    config.epoch = 3;
    config.backend = aotx::cuda_backend_table();
    aotx::Loop* loop = nullptr;
    const char* reason = "";
    CHECK(aotx::loop_open(config, &loop, &reason) == AOTX_ERR_SYSTEM);
    CHECK(now_of(fake_cuda().resets) == 1);
}

TEST_CASE("a device that cannot be brought back stays down")
{
    const FreshCuda fresh;
    uint64_t epoch = 1000;
    aotx::LoopConfig config;
    config.fresh_epoch = next_epoch;
    config.fresh_epoch_context = &epoch;
    Device device(config);
    device.grant(1, {kUser});
    fake_cuda().refuse_allocation = true;
    fail_in(1);
    while (aotx_word_load(&aotx::loop_ring(device.loop())->closed) == 0) {
        (void)device.read(kUser, id_of(7));
    }
    CHECK(device.read(kUser, id_of(7)).head.status == 503);
    CHECK(!aotx::loop_serving(device.loop()));
    CHECK(now_of(fake_cuda().resets) == 2);
}
