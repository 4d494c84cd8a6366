// Purpose:  the rules of a program, checked before any executor sees it.
// Owns:     nothing.
// Thread:   main.
// Lifetime: not applicable.
#include "cuda_program.h"

namespace aotx {

namespace {

bool kernel_check(const ProgramNode& node, const char** reason)
{
    const uint64_t blocks = uint64_t{node.grid[0]} * node.grid[1] * node.grid[2];
    if (blocks == 0 || node.grid[0] > 0x7fffffffu || node.grid[1] > 65535u ||
        node.grid[2] > 65535u || node.block == 0 || node.block > 1024u) {
        *reason = "a kernel's grid or block is not one that a device takes";
        return false;
    }
    if (node.arguments == nullptr || node.arguments_bytes == 0 || node.arguments_bytes > 4096u) {
        *reason = "a kernel has no arguments, or more than 4096 bytes of them";
        return false;
    }
    if (node.body_nodes != 0) {
        *reason = "a kernel has a body";
        return false;
    }
    return true;
}

bool children_check(const Program& program, uint32_t first, uint32_t end, const char** reason)
{
    for (uint32_t i = first; i < end; i += 1u + program.nodes[i].body_nodes) {
        const ProgramNode& node = program.nodes[i];
        if (node.kind == kProgramKernel) {
            if (!kernel_check(node, reason)) {
                return false;
            }
            continue;
        }
        if (node.kind != kProgramIf && node.kind != kProgramWhile && node.kind != kProgramSwitch) {
            *reason = "a node has no kind";
            return false;
        }
        if (node.condition >= program.conditions_count) {
            *reason = "a node names a condition that does not exist";
            return false;
        }
        if (node.body_nodes == 0 || node.body_nodes > end - i - 1u) {
            *reason = "a body is empty or reaches beyond its parent";
            return false;
        }
        if (!children_check(program, i + 1u, i + 1u + node.body_nodes, reason)) {
            return false;
        }
    }
    return true;
}

}  // namespace

bool program_check(const Program& program, const char** reason) noexcept
{
    if (program.nodes_count == 0 || program.nodes_count > kProgramNodesMax ||
        program.conditions_count > kProgramConditionsMax) {
        *reason = "a program is empty or too long";
        return false;
    }
    if (program.overlaps > 1 || (program.overlaps == 1 && program.conditions_count != 0)) {
        *reason = "only kernels can overlap, without loops and branches";
        return false;
    }
    return children_check(program, 0, program.nodes_count, reason);
}

}  // namespace aotx
