// Purpose:  what the device runs, as a small list: kernels, and loops and branches around them. One
// executor builds a CUDA graph from it, once; another interprets it over kernels run on the CPU, so
// control flow is tested where there is no GPU.
// Owns:     nothing; arguments are memory of whoever built the program.
// Thread:   built on the main thread, then constant.
// Lifetime: as long as the executor that was made from it.
#pragma once

#include <cstdint>

namespace aotx {

constexpr uint32_t kProgramNodesMax = 512;
constexpr uint32_t kProgramConditionsMax = 8;
constexpr uint32_t kProgramRoundsMax = 1u << 20;  // of one loop in one launch; more is our bug

enum ProgramNodeKind : uint32_t {
    kProgramKernel = 1,
    kProgramIf = 2,     // run the body when the condition is not 0
    kProgramWhile = 3,  // run the body as long as it is not 0
    kProgramSwitch = 4  // run the child whose place equals the condition, none beyond the last
};

// Nodes lie in pre-order: the body of a node are the body_nodes nodes behind it. A switch's
// children are each one node (a kernel or an If over a condition that is always 1).
struct ProgramNode {
    ProgramNodeKind kind;
    uint32_t kernel;  // number in kernel_list.h or cuda_tick_list.h
    uint32_t grid[3];
    uint32_t block;
    const void* arguments;  // one struct, copied when the executor is made
    uint32_t arguments_bytes;
    uint32_t condition;   // index; conditions start every launch at condition_start
    uint32_t body_nodes;  // nodes that follow and belong to this one
};

struct Program {
    ProgramNode nodes[kProgramNodesMax];
    uint32_t nodes_count;
    uint32_t condition_start[kProgramConditionsMax];
    uint32_t conditions_count;
    // 1: every kernel begins with cu_begin, so that where the device can, one starts while the one
    // before it ends. An executor may leave that out.
    uint32_t overlaps;
    // Words that kernels name conditions by: filled when the executor is made, before arguments are
    // copied. [conditions_count], lent
    uint64_t* condition_handles;
};

// Does the list keep its own rules: bodies inside their parents, known conditions, grids that a
// device takes? False with a static text.
[[nodiscard]] bool program_check(const Program& program, const char** reason) noexcept;

}  // namespace aotx
