// Purpose:  the one table of every configuration key, which drives parsing, printing and the
// documentation.
// Owns:     the rows, constant.
// Thread:   any.
// Lifetime: static.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "service/config/config.h"

namespace aotx {

// What the text of a key must look like.
enum class TextForm : uint32_t {
    Any,      // bounded by the row's characters
    Path,     // made absolute; an empty one stays empty
    Library,  // as Path when it holds a slash, else a file name
    Choice,   // one of the row's choices
    Address,  // IPv4 or [IPv6] address, ":" and a port
    Host,     // a host name with an optional port
    Alias,    // 1..64 of A-Z a-z 0-9 . _ : / -
    Cpus,     // empty, or processors as "0,2-3"
    Hex,      // lower-case hex digits, exactly as many as the row's maximum
};

template <typename Section>
using ConfigSlot = std::variant<uint32_t Section::*, uint64_t Section::*, bool Section::*,
                                std::string Section::*, std::vector<std::string> Section::*>;

template <typename Section>
struct ConfigKey {
    const char* name;
    ConfigSlot<Section> slot;
    uint64_t minimum;     // of a number; characters of a text; entries of a list
    uint64_t maximum;     // as minimum
    TextForm form;        // of a text or of each entry
    const char* choices;  // of Choice: "a|b|c"
    bool is_required;
    const char* about;  // meaning and unit; one sentence or more
};

// One table of the file. Every section's defaults are those of a Section{}.
template <typename Section>
struct ConfigSection {
    const char* name;
    bool is_list;  // [[name]], each entry one Section
    const char* about;
    std::span<const ConfigKey<Section>> keys;
};

extern const ConfigSection<DeviceConfig> kDeviceSection;
extern const ConfigSection<BrokerConfig> kBrokerSection;
extern const ConfigSection<GatewayConfig> kGatewaySection;
extern const ConfigSection<ModelConfig> kModelSection;
extern const ConfigSection<PrincipalConfig> kPrincipalSection;

}  // namespace aotx
