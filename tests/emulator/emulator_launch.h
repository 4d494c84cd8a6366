// Purpose:  start a kernel on the emulator from a test: emu_launch(kernel, shape, arguments...).
// Owns:     a copy of the arguments for the time of the launch.
// Thread:   as emu::launch.
// Lifetime: one launch.
#pragma once

#include <tuple>
#include <utility>

#include "emulator.h"

namespace emu {

// Arguments are evaluated once and every thread gets them by value, as on a device.
template <auto kernel, typename... Arguments>
bool run(const LaunchShape& shape, Arguments... arguments)
{
    using Pack = std::tuple<Arguments...>;
    const Pack pack(arguments...);
    const auto entry = [](const void* data) {
        std::apply([](const Arguments&... values) { kernel(values...); },
                   *static_cast<const Pack*>(data));
    };
    return launch(shape, entry, &pack);
}

}  // namespace emu
