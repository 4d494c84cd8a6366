// Purpose:  the ranges for profilers, seen by a tool inside this program: every phase of a step,
// the life of every request under its handle.
// Owns:     what the tool saw.
// Thread:   the loop's threads write, under a lock; the test's thread reads behind the stop.
// Lifetime: one run.
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "aotx/handle.h"
#include "fresh_cuda.h"
#include "tests/loop/harness.h"

using namespace aotx_test;

namespace {

struct Event {
    char kind;  // + begin of a range, - its end, ! a mark
    std::string name;
    uint64_t payload;
};

std::mutex lock;
std::vector<Event> events;
std::map<uint64_t, std::string> lives;  // that have begun and not ended
thread_local std::vector<std::string> open_ranges;

void NVTX_API saw_mark(const nvtxEventAttributes_t* event)
{
    const std::lock_guard<std::mutex> guard(lock);
    events.push_back({'!', event->message.ascii, event->payload.ullValue});
}

int NVTX_API saw_push(const nvtxEventAttributes_t* event)
{
    const std::lock_guard<std::mutex> guard(lock);
    events.push_back({'+', event->message.ascii, event->payload.ullValue});
    open_ranges.push_back(event->message.ascii);
    return static_cast<int>(open_ranges.size()) - 1;
}

int NVTX_API saw_pop()
{
    const std::lock_guard<std::mutex> guard(lock);
    events.push_back({'-', open_ranges.back(), 0});
    open_ranges.pop_back();
    return static_cast<int>(open_ranges.size());
}

nvtxRangeId_t NVTX_API saw_start(const nvtxEventAttributes_t* event)
{
    const std::lock_guard<std::mutex> guard(lock);
    events.push_back({'+', event->message.ascii, event->payload.ullValue});
    lives[events.size()] = event->message.ascii;
    return events.size();
}

void NVTX_API saw_end(nvtxRangeId_t range)
{
    const std::lock_guard<std::mutex> guard(lock);
    events.push_back({'-', lives.at(range), 0});
    lives.erase(range);
}

int tool_open(NvtxGetExportTableFunc_t export_table)
{
    const auto* const callbacks =
        static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned count = 0;
    if (callbacks == nullptr ||
        callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &count) == 0) {
        return 0;
    }
    *table[NVTX_CBID_CORE_MarkEx] = reinterpret_cast<NvtxFunctionPointer>(saw_mark);
    *table[NVTX_CBID_CORE_RangePushEx] = reinterpret_cast<NvtxFunctionPointer>(saw_push);
    *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(saw_pop);
    *table[NVTX_CBID_CORE_RangeStartEx] = reinterpret_cast<NvtxFunctionPointer>(saw_start);
    *table[NVTX_CBID_CORE_RangeEnd] = reinterpret_cast<NvtxFunctionPointer>(saw_end);
    return 1;
}

size_t count_of(char kind, const std::string& name, uint64_t payload)
{
    return static_cast<size_t>(std::count_if(events.begin(), events.end(), [&](const Event& event) {
        return event.kind == kind && event.name == name && event.payload == payload;
    }));
}

size_t place_of(char kind, const std::string& name)
{
    const auto found = std::find_if(events.begin(), events.end(), [&](const Event& event) {
        return event.kind == kind && event.name == name;
    });
    REQUIRE(found != events.end());
    return static_cast<size_t>(found - events.begin());
}

std::string handle_of(const Id& id)
{
    char handle[AOTX_REQUEST_HANDLE_CHARACTERS + 1] = {};
    aotx_request_handle_format(Device::kEpoch, id.bytes, handle);
    return handle;
}

void check_requests(const std::vector<Id>& ids)
{
    const std::lock_guard<std::mutex> guard(lock);
    CHECK(lives.empty());
    for (const Id& id : ids) {
        const std::string handle = handle_of(id);
        // The payload is what stands behind the epoch in the handle.
        const uint64_t digits = std::stoull(handle.substr(21, 16), nullptr, 16);
        INFO(handle);
        CHECK(count_of('+', handle, digits) == 1);
        CHECK(count_of('-', handle, 0) == 1);
        CHECK(place_of('+', handle) < place_of('-', handle));
        CHECK(count_of('+', "render", digits) == 1);
        CHECK(count_of('+', "open", digits) == 1);
        CHECK(count_of('+', "close", digits) == 1);
        CHECK(count_of('!', "row", digits) >= 5);  // the scripted answer has five tokens
    }
    for (const Event& event : events) {
        if (event.kind == '+') {
            const auto same = [&event](char kind) {
                return std::count_if(events.begin(), events.end(), [&](const Event& other) {
                    return other.kind == kind && other.name == event.name;
                });
            };
            INFO(event.name);
            REQUIRE(same('+') == same('-'));
        }
    }
    CHECK(place_of('+', "step") < place_of('-', "step"));
}

void run_requests(Device* device, const std::vector<Id>& ids)
{
    const Id user = id_of(1);
    device->grant(1, {user});
    for (const Id& id : ids) {
        REQUIRE(device->submit(user, id, "hello").head.status == 202);
        REQUIRE(device->finish(user, id).text() == "This answer is scripted.");
    }
    device->stop();
}

}  // namespace

TEST_CASE("a profiler sees every phase of a step and every request's life under its handle")
{
    const FreshCuda fresh;
    InitializeInjectionNvtx2_fnptr = tool_open;  // where NVTX looks for a tool that is linked in
    const std::vector<Id> ids = {id_of(0x0123456789abcdef), id_of(77), id_of(78)};
    {
        Device device;
        run_requests(&device, ids);
    }
    check_requests(ids);
    for (const char* const phase : {"device up", "tick", "tick and plan", "step"}) {
        CHECK(place_of('+', phase) < place_of('-', phase));
    }
}
