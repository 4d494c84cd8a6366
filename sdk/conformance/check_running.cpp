// Purpose:  the groups that run a model: ticks, the hot contract, lifetimes under threads.
// Owns:     nothing.
// Thread:   one, besides the threads that the lifetime group starts and joins.
// Lifetime: the call.
#include <cstring>
#include <thread>

#include "flashrt/builder.hpp"
#include "subject.h"

namespace flashrt::conformance {
namespace {

constexpr int kRetainRounds = 2000;
constexpr int kRetainsHeld = 16;  // at once by each thread: a lost count shows as an early end

// Everything that a host may have looked up once and then relies on.
std::string declarations(const Subject& subject)
{
    const frt_model_runtime_v1* model = subject.adopted.original();
    std::string all(reinterpret_cast<const char*>(model), FRT_MODEL_RUNTIME_V1_BASE_SIZE);
    all.append(reinterpret_cast<const char*>(model->exp), sizeof *model->exp);
    for (uint64_t at = 0; at < model->n_ports; at++) {
        const frt_runtime_port_desc& port = model->ports[at];
        all.append(reinterpret_cast<const char*>(&port), sizeof port);
        all.append(port.name);
        void* memory = port.buffer == nullptr || subject.exec.dptr == nullptr
                           ? nullptr
                           : subject.exec.dptr(port.buffer);
        all.append(reinterpret_cast<const char*>(&memory), sizeof memory);
    }
    return all + model->exp->identity;
}

size_t variants(const Subject& subject)
{
    size_t count = 0;
    const frt_runtime_export_v1* exp = subject.adopted.runtime()->exp;
    for (uint64_t at = 0; subject.exec.variant_count != nullptr && at < exp->n_graphs; at++) {
        count += subject.exec.variant_count(exp->graphs[at].handle);
    }
    return count;
}

// Many rounds of set_input, tick and get_output into memory that is ready; the number of heap
// calls, or -1 when a verb failed.
int64_t hot_rounds(Subject* subject, Driver* driver)
{
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    const bool opaque = subject->adopted.authority() == frt::Authority::plan;
    std::vector<std::string> room(model->n_ports);
    for (uint32_t at = 0; at < model->n_ports; at++) {
        uint64_t need = 0;
        char none = 0;
        const frt_runtime_port_desc& port = model->ports[at];
        if (port.direction == FRT_RT_PORT_OUT && port.update == FRT_RT_PORT_STAGED) {
            model->verbs.get_output(model->self, at, &none, 0, &need, -1);
            room[at].resize(need + 4096);
        }
    }
    uint64_t (*calls)() = subject->options.allocation_calls;
    int64_t heap_calls = 0;
    for (uint32_t round = 0; round < subject->options.ticks; round++) {
        int code = 0;
        uint64_t before = calls == nullptr ? 0 : calls();
        for (uint32_t at = 0; at < model->n_ports; at++) {
            const frt_runtime_port_desc& port = model->ports[at];
            if (port.direction == FRT_RT_PORT_IN && port.update == FRT_RT_PORT_STAGED) {
                code |= driver->set(at, driver->payload(at).data(), driver->payload(at).size());
            }
        }
        uint64_t after = calls == nullptr ? 0 : calls();
        heap_calls += static_cast<int64_t>(after - before);
        code |= driver->tick();
        // An OPAQUE stage may allocate; a graph or a step may not.
        before = calls == nullptr || opaque ? 0 : after;
        after = calls == nullptr || opaque ? 0 : calls();
        heap_calls += static_cast<int64_t>(after - before);
        before = calls == nullptr ? 0 : calls();
        for (uint32_t at = 0; at < model->n_ports; at++) {
            uint64_t written = 0;
            if (!room[at].empty()) {
                code |= model->verbs.get_output(model->self, at, room[at].data(), room[at].size(),
                                                &written, -1);
            }
        }
        heap_calls += calls == nullptr ? 0 : static_cast<int64_t>(calls() - before);
        if (code != 0) {
            return -1;
        }
    }
    return heap_calls;
}

void check_hot(Subject* subject, Driver* driver)
{
    Report* report = subject->report;
    report->begin("hot.allocations");
    const std::string before = declarations(*subject);
    const size_t variants_before = variants(*subject);
    const int64_t heap_calls = hot_rounds(subject, driver);
    if (heap_calls < 0) {
        report->check("hot.allocations", false, "a verb or a tick fails when it is repeated");
    } else if (subject->options.allocation_calls == nullptr) {
        report->skip("hot.allocations", "this program does not count heap calls");
    } else {
        report->check("hot.allocations", heap_calls == 0, "%lld heap calls in %u ticks",
                      static_cast<long long>(heap_calls), subject->options.ticks);
    }
    report->check("hot.recapture", variants(*subject) == variants_before,
                  "%zu variants before, %zu after", variants_before, variants(*subject));
    report->check("hot.rebind", declarations(*subject) == before,
                  "a declaration or a window is another one now");
}

void check_step(Subject* subject, Driver* driver, const std::vector<std::string>& want)
{
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    const bool has_step = subject->adopted.original()->verbs.step != nullptr;
    subject->report->begin("tick.step_equals_stages");
    if (subject->adopted.authority() == frt::Authority::step || !has_step) {
        subject->report->skip("tick.step_equals_stages", "step and the tick are the same");
        return;
    }
    driver->feed(1);
    const int code = model->verbs.step(model->self);
    if (code == FRT_VERB_UNSUPPORTED) {
        subject->report->skip("tick.step_equals_stages", "there is no step next to the stages");
        return;
    }
    subject->report->check("tick.step_equals_stages", code == 0 && driver->outputs() == want,
                           "step answers %d, or the outputs differ", code);
}

void retain_from_threads(frt_model_runtime_v1* model, uint32_t count)
{
    std::vector<std::thread> threads;
    for (uint32_t at = 0; at < count; at++) {
        threads.emplace_back([model] {
            for (int round = 0; round < kRetainRounds; round++) {
                for (int held = 0; held < kRetainsHeld; held++) {
                    model->retain(model->owner);
                }
                for (int held = 0; held < kRetainsHeld; held++) {
                    model->release(model->owner);
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

}  // namespace

void check_running(Subject* subject)
{
    if (!subject->ready()) {
        return;
    }
    Report* report = subject->report;
    Driver driver(subject);
    report->begin("tick.runs");
    const std::string refusal = driver.feed(1);
    if (!refusal.empty()) {
        report->skip("tick.runs", "the made-up payloads are refused: %s", refusal.c_str());
        return;
    }
    const int code = driver.tick();
    const frt_model_runtime_v1* model = subject->adopted.runtime();
    if (!report->check("tick.runs", code == 0, "it answers %d: %s", code,
                       model->verbs.last_error(model->self))) {
        return;
    }
    const std::vector<std::string> want = driver.outputs();
    report->begin("tick.repeatable");
    driver.feed(2);
    driver.tick();
    driver.feed(1);
    driver.tick();
    const bool repeatable = driver.outputs() == want;
    if (repeatable) {
        report->check("tick.repeatable", true, " ");
        report->begin("payload.reuse");
        driver.feed(1);
        driver.scribble();
        driver.tick();
        report->check("payload.reuse", driver.outputs() == want,
                      "the outputs follow what was written over the payload");
        check_step(subject, &driver, want);
    } else {
        report->warn("tick.repeatable", "the outputs depend on more than the inputs");
    }
    driver.feed(1);
    check_hot(subject, &driver);
}

void check_lifetime(Subject* subject)
{
    if (!subject->load()) {
        return;
    }
    Report* report = subject->report;
    frt_model_runtime_v1* model = subject->open();
    if (model == nullptr || frt_detail::gate_model(model) != 0) {
        return;
    }
    const std::string identity = model->exp->identity;
    report->begin("lifetime.owner");
    model->retain(model->owner);
    model->release(model->owner);
    report->check("lifetime.owner", model->exp->identity == identity, "the object changed");
    report->begin("lifetime.threads");
    retain_from_threads(model, subject->options.threads);
    const uint64_t hash = frt_runtime_fingerprint(identity.data(), identity.size());
    report->check("lifetime.threads", model->exp->identity == identity, "the object is gone");
    report->begin("lifetime.export");
    const frt_runtime_export_v1* exp = model->exp;
    exp->retain(exp->owner);
    model->release(model->owner);
    report->check("lifetime.export",
                  exp->identity == identity &&
                      frt_runtime_fingerprint(exp->identity, identity.size()) == hash,
                  "the export is gone with the runtime");
    exp->release(exp->owner);
    report->begin("lifetime.foreign_thread");
    frt_model_runtime_v1* second = subject->open();
    if (second != nullptr) {
        std::thread([second] { second->release(second->owner); }).join();
    }
    report->check("lifetime.foreign_thread", second != nullptr, "it does not open again");
}

}  // namespace flashrt::conformance
