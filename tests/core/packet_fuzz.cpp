// Purpose:  fuzz target over whole sequences of packets and steps. Target functions: core_stage,
//           core_answer, core_watch_answer, core_sweep, core_plan, core_commit.
// Owns:     one core, fresh for every input.
// Thread:   main.
// Lifetime: one input.
//
// Properties: a refusal leaves every byte of the slab as it was, every reply is well formed, and
// the tables agree with each other after every action.
#include <cstdlib>

#include "fixture.h"

using namespace core_test;

namespace {

class Input {
public:
    Input(const uint8_t* data, size_t bytes) : at_(data), end_(data + bytes) {}
    bool empty() const { return at_ == end_; }
    uint8_t byte() { return at_ == end_ ? uint8_t(0) : *at_++; }
    uint32_t word() { return byte() | static_cast<uint32_t>(byte()) << 8u; }
    Bytes take(size_t wanted)
    {
        const size_t left = static_cast<size_t>(end_ - at_);
        const size_t count = wanted < left ? wanted : left;
        const Bytes bytes(at_, at_ + count);
        at_ += count;
        return bytes;
    }

private:
    const uint8_t* at_;
    const uint8_t* end_;
};

// A head that would pass, then up to four bytes of it changed, then any payload.
Bytes near_packet(Device* device, Input* input)
{
    const uint32_t operation = input->byte() % 15u;
    const bool nameless = operation == AOTX_OPERATION_GRANTS || operation == AOTX_OPERATION_WATCH ||
                          operation == AOTX_OPERATION_DEVICE;
    aotx_request_head head = head_of(operation, id_of(10 + input->byte() % 3u), device->revision);
    if (nameless) {
        std::memset(head.principal, 0, 16);
        head.grant_revision = operation == AOTX_OPERATION_GRANTS ? device->revision + 1u : 0u;
    }
    const bool dated = operation == AOTX_OPERATION_SUBMIT || operation == AOTX_OPERATION_READ ||
                       operation == AOTX_OPERATION_CANCEL || operation == AOTX_OPERATION_WATCH;
    if (dated) {
        head.runtime_epoch = kEpoch;
        std::memcpy(head.id, id_of(100 + input->byte() % 4u).bytes, 16);
    }
    if (operation == AOTX_OPERATION_SUBMIT) {
        head.model_role = 2;
        head.count = input->byte();
        head.temperature = 1.0f;
        head.top_p = 1.0f;
    }
    Bytes payload = input->take(input->word() % 2048u);
    if (operation == AOTX_OPERATION_DEVICE) {
        payload.clear();
    }
    if (nameless) {
        payload.resize(payload.size() / 64u * 64u);
        head.count = static_cast<uint32_t>(payload.size() / 64u);
    }
    Bytes packet = packet_of(head, payload);
    for (uint32_t changes = input->byte() % 5u; changes > 0; changes--) {
        packet[input->byte() % packet.size()] = input->byte();
    }
    return packet;
}

void act(Device* device, Input* input)
{
    switch (input->byte() % 9u) {
        case 0:
            device->call(input->take(input->word()), input->byte() % 8u);
            break;
        case 1:
        case 2:
        case 3: {
            const Bytes packet = near_packet(device, input);
            const uint32_t mailbox = input->byte() % 8u;
            device->flush();
            device->call(packet, mailbox);
            device->revision = device->core.state->grants_revision;
            break;
        }
        case 4:
            device->submit(id_of(10 + input->byte() % 3u), id_of(100 + input->byte() % 8u), "hi",
                           1 + input->byte() % 4u);
            break;
        case 5:
            device->cancel(id_of(10 + input->byte() % 3u), id_of(100 + input->byte() % 8u));
            break;
        case 6:
            device->close_slots(0);
            device->start(0, 1 + input->byte() % 64u, input->byte() % 8u == 0 ? 503u : 0u);
            break;
        case 7:
            device->step(0, std::string(input->byte() % 60u, 'x'), input->byte() % 4u,
                         input->byte() % 16u == 0);
            break;
        default:
            device->now_ns += static_cast<uint64_t>(input->byte()) * aotx::kCoreSecond;
            aotx::core_sweep(&device->core, device->now_ns);
            aotx::core_watch_expire(&device->core, device->now_ns);
            break;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes)
{
    aotx::CoreLimits limits = limits_of(5);
    limits.prompts_max = 4;
    limits.prompt_bytes_max = 256;
    limits.models_count = 1;
    limits.models[0].pages_count = 20;
    Device device(limits);
    device.grant(1, {id_of(10), id_of(11)});
    Input input(data, size_bytes);
    // Each mailbox holds one packet, so a mailbox whose watch is parked gets no other: flush first.
    while (!input.empty()) {
        aotx::core_watch_close(&device.core);
        device.flush();
        act(&device, &input);
        device.audit();
    }
    return 0;
}
