// Purpose:  judge and complete one text value of the configuration.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#pragma once

#include <string>
#include <string_view>

#include "service/config/table.h"

namespace aotx {

// Judge a text against its form; a Path (or a Library with a slash) that is relative becomes
// absolute under directory, which ends with or without a slash. Returns null, or why it is refused
// (static text).
[[nodiscard]] const char* text_check(TextForm form, const char* choices, std::string_view directory,
                                     std::string* text) noexcept;

// Whether an address that has passed TextForm::Address is a loopback one, or a socket's path.
[[nodiscard]] bool address_is_loopback(const std::string& address) noexcept;

}  // namespace aotx
