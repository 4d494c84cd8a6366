// Purpose:  every interleaving of the loop's handshakes under store buffers, and proof that each
//           fence and each second look is needed.
// Owns:     nothing.
// Thread:   main; the threads are modelled.
// Lifetime: one run.
//
// The model is total store order: a store goes into its thread's buffer and reaches memory later,
// in order; a load sees the own buffer first; a fence waits for the buffer to drain. A mutant run
// with a weaker machine lets the buffer drain in any order and loads run ahead of earlier loads, to
// show where release and acquire are what holds. All states are explored.
#include <array>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace {

enum Op { kStore, kLoad, kFence, kJumpIf, kJumpUnless, kSleep, kWake, kCheck, kJump, kEnd };

constexpr int kRegisters = 4;
constexpr int kWords = 6;

// One instruction. kStore: word[a] = b (b < 0: register -b - 1). kLoad: register a = word[b].
// kJumpIf and kJumpUnless: compare register a with b, go to c. kSleep: sleep while word[a] still is
// register b. kWake: end a sleep. kCheck: register a must be b.
struct Instruction {
    Op op;
    int a = 0;
    int b = 0;
    int c = 0;
};
using Program = std::vector<Instruction>;

struct Pending {
    int word;
    int value;
    bool operator<(const Pending& other) const
    {
        return word != other.word ? word < other.word : value < other.value;
    }
};

struct Thread {
    int at = 0;
    bool asleep = false;
    std::array<int, kRegisters> registers = {};
    std::vector<Pending> buffer;
    bool operator<(const Thread& other) const
    {
        if (at != other.at) {
            return at < other.at;
        }
        if (asleep != other.asleep) {
            return asleep < other.asleep;
        }
        if (registers != other.registers) {
            return registers < other.registers;
        }
        return buffer < other.buffer;
    }
};

struct State {
    std::array<int, kWords> memory = {};
    std::array<Thread, 2> threads = {};
    bool operator<(const State& other) const
    {
        return memory != other.memory ? memory < other.memory : threads < other.threads;
    }
};

struct Outcome {
    size_t states = 0;
    size_t stuck = 0;   // somebody sleeps, nobody will wake it
    size_t broken = 0;  // a check failed
};

// Explore everything. reorder: stores of one thread to different words may reach memory out of
// order, unless the store is a release (c == 1), which waits for those before it.
Outcome explore(const std::array<Program, 2>& programs, bool reorder = false)
{
    Outcome outcome;
    std::set<State> seen;
    std::deque<State> open;
    const auto visit = [&](const State& state) {
        if (seen.insert(state).second) {
            open.push_back(state);
        }
    };
    visit(State());
    while (!open.empty()) {
        const State state = open.front();
        open.pop_front();
        outcome.states++;
        bool moved = false;
        bool asleep = false;
        for (size_t i = 0; i < 2; i++) {
            const Thread& thread = state.threads[i];
            for (size_t drain = 0; drain < thread.buffer.size(); drain++) {
                bool behind = drain > 0 && !reorder;
                for (size_t j = 0; j < drain; j++) {
                    // Same word, or a release behind anything, keeps its place.
                    behind = behind || thread.buffer[j].word == thread.buffer[drain].word ||
                             thread.buffer[drain].value >= 1000;
                }
                if (behind) {
                    continue;
                }
                State next = state;
                Thread* const mover = &next.threads[i];
                const Pending pending = mover->buffer[drain];
                next.memory[static_cast<size_t>(pending.word)] = pending.value % 1000;
                mover->buffer.erase(mover->buffer.begin() + static_cast<long>(drain));
                visit(next);
                moved = true;
            }
            if (thread.asleep) {
                asleep = true;
                continue;
            }
            const Instruction& step = programs[i][static_cast<size_t>(thread.at)];
            if (step.op == kEnd) {
                continue;
            }
            State next = state;
            Thread* const mover = &next.threads[i];
            mover->at++;
            const auto read = [&](int word) {
                for (size_t j = thread.buffer.size(); j > 0; j--) {
                    if (thread.buffer[j - 1].word == word) {
                        return thread.buffer[j - 1].value % 1000;
                    }
                }
                return state.memory[static_cast<size_t>(word)];
            };
            const int held = thread.registers[static_cast<size_t>(step.a % kRegisters)];
            switch (step.op) {
                case kStore: {
                    const int value =
                        step.b < 0 ? thread.registers[static_cast<size_t>(-step.b - 1)] : step.b;
                    mover->buffer.push_back({step.a, value + (step.c == 1 ? 1000 : 0)});
                    break;
                }
                case kLoad:
                    mover->registers[static_cast<size_t>(step.a)] = read(step.b);
                    break;
                case kFence:
                    if (!thread.buffer.empty()) {
                        continue;  // waits for its buffer
                    }
                    break;
                case kJumpIf:
                    mover->at = held == step.b ? step.c : mover->at;
                    break;
                case kJumpUnless:
                    mover->at = held != step.b ? step.c : mover->at;
                    break;
                case kJump:
                    mover->at = step.c;
                    break;
                case kSleep:
                    // The kernel's look at the word is a system call: it drains the buffer first.
                    if (!thread.buffer.empty()) {
                        continue;
                    }
                    mover->asleep = read(step.a) == thread.registers[static_cast<size_t>(step.b)];
                    break;
                case kWake:
                    if (!thread.buffer.empty()) {
                        continue;  // the ring is a read-modify-write and a system call
                    }
                    next.memory[static_cast<size_t>(step.a)]++;
                    next.threads[1 - i].asleep = false;
                    break;
                case kCheck:
                    if (held != step.b) {
                        outcome.broken++;
                        continue;
                    }
                    break;
                case kEnd:
                    break;
            }
            visit(next);
            moved = true;
        }
        if (!moved && asleep) {
            outcome.stuck++;
        }
    }
    return outcome;
}

// Words of the parking handshake.
enum { kList = 0, kParked = 1, kBell = 2, kFrame = 3, kTurn = 4, kReply = 5 };

// The sleeper of P1: the operator. It takes two postings and sleeps in between. List counts
// postings; register 0 bell, 1 list, 2 taken.
Program sleeper(int postings, bool fence, bool second_look)
{
    Program program;
    for (int taken = 0; taken < postings; taken++) {
        const int again = static_cast<int>(program.size());
        const int after = again + (fence ? 1 : 0) + (second_look ? 9 : 6) + 1;
        program.push_back({kLoad, 1, kList});  // look
        program.push_back({kJumpUnless, 1, taken, after});
        program.push_back({kStore, kParked, 1});
        if (fence) {
            program.push_back({kFence});
        }
        program.push_back({kLoad, 0, kBell});
        if (second_look) {
            program.push_back({kLoad, 1, kList});  // look once more
            const int awake = again + (fence ? 1 : 0) + 7;
            program.push_back({kJumpUnless, 1, taken, awake});
        }
        program.push_back({kSleep, kBell, 0});
        program.push_back({kStore, kParked, 0});
        program.push_back({kJump, 0, 0, again});
        while (static_cast<int>(program.size()) < after) {
            program.push_back({kJump, 0, 0, after});
        }
    }
    program.push_back({kEnd});
    return program;
}

// The ringer of P1: the broker. It posts, then rings if the sleeper is parked.
Program ringer(int postings, bool fence)
{
    Program program;
    for (int posted = 1; posted <= postings; posted++) {
        program.push_back({kStore, kList, posted, 1});
        if (fence) {
            program.push_back({kFence});
        }
        program.push_back({kLoad, 0, kParked});
        const int after = static_cast<int>(program.size()) + 2;
        program.push_back({kJumpUnless, 0, 1, after});
        program.push_back({kWake, kBell});
    }
    program.push_back({kEnd});
    return program;
}

// T1 to T4: one frame goes there and back. The frame's first word stands for all of it.
Program broker(bool t1_release)
{
    Program program;
    program.push_back({kStore, kFrame, 5});
    program.push_back({kStore, kTurn, 1, t1_release ? 1 : 0});  // T1
    program.push_back({kLoad, 0, kTurn});                       // T4
    program.push_back({kJumpUnless, 0, 2, 2});
    program.push_back({kLoad, 1, kReply});
    program.push_back({kCheck, 1, 6});
    program.push_back({kLoad, 1, kFrame});
    program.push_back({kCheck, 1, 7});
    program.push_back({kEnd});
    return program;
}

Program device(bool t3_release)
{
    Program program;
    program.push_back({kLoad, 0, kTurn});  // T2
    program.push_back({kJumpUnless, 0, 1, 0});
    program.push_back({kLoad, 1, kFrame});
    program.push_back({kCheck, 1, 5});
    program.push_back({kStore, kFrame, 7});
    program.push_back({kStore, kReply, 6});
    program.push_back({kStore, kTurn, 2, t3_release ? 1 : 0});  // T3
    program.push_back({kEnd});
    return program;
}

}  // namespace

TEST_CASE("parking loses no wake-up, and every part of it is needed")
{
    for (int postings = 1; postings <= 3; postings++) {
        INFO(postings << " postings");
        const Outcome whole = explore({sleeper(postings, true, true), ringer(postings, true)});
        CHECK(whole.states > 20);
        CHECK(whole.stuck == 0);
        CHECK(explore({sleeper(postings, false, true), ringer(postings, true)}).stuck > 0);
        CHECK(explore({sleeper(postings, true, true), ringer(postings, false)}).stuck > 0);
        CHECK(explore({sleeper(postings, false, true), ringer(postings, false)}).stuck > 0);
        CHECK(explore({sleeper(postings, true, false), ringer(postings, true)}).stuck > 0);
        // Also on a machine whose stores drain in any order.
        CHECK(explore({sleeper(postings, true, true), ringer(postings, true)}, true).stuck == 0);
    }
}

TEST_CASE("a turn carries the whole frame there and back")
{
    for (const bool reorder : {false, true}) {
        const Outcome whole = explore({broker(true), device(true)}, reorder);
        CHECK(whole.states > 10);
        CHECK(whole.broken == 0);
        CHECK(whole.stuck == 0);
    }
    // Total store order keeps stores in order by itself; where the machine does not, each release
    // is needed.
    CHECK(explore({broker(false), device(true)}, true).broken > 0);
    CHECK(explore({broker(true), device(false)}, true).broken > 0);
}
