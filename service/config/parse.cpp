// Purpose:  judge one text value, see parse.h.
// Owns:     nothing.
// Thread:   any.
// Lifetime: not applicable.
#include "service/config/parse.h"

#include <arpa/inet.h>

#include <cstring>

#include "aotx/handle.h"
#include "aotx/status.h"
#include "service/base/cpus.h"

namespace aotx {
namespace {

bool is_letter_or_digit(char character) noexcept
{
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9');
}

bool all_of(std::string_view text, const char* others) noexcept
{
    for (const char character : text) {
        if (!is_letter_or_digit(character) &&
            (character == '\0' || std::strchr(others, character) == nullptr)) {
            return false;
        }
    }
    return !text.empty();
}

bool is_port(std::string_view text) noexcept
{
    uint64_t port = 0;
    return aotx_decimal_parse(text.data(), text.size(), &port) == AOTX_OK && port <= 65535;
}

// Split "host:port" and "[v6]:port"; false when there is no port.
bool split_address(std::string_view text, std::string* host, bool* is_ipv6,
                   std::string_view* port) noexcept
{
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return false;
    }
    *port = text.substr(colon + 1);
    std::string_view name = text.substr(0, colon);
    *is_ipv6 = name.size() > 2 && name.front() == '[' && name.back() == ']';
    if (*is_ipv6) {
        name = name.substr(1, name.size() - 2);
    }
    *host = std::string(name);
    return true;
}

const char* check_address(const std::string& text) noexcept
{
    if (address_is_unix(text)) {
        const bool is_whole = text.size() > kUnixAddress.size() && text[kUnixAddress.size()] == '/';
        return is_whole && text.find('\0') == std::string::npos
                   ? nullptr
                   : "must be unix: and a path from the root on";
    }
    std::string host;
    bool is_ipv6 = false;
    std::string_view port;
    in6_addr address = {};
    if (!split_address(text, &host, &is_ipv6, &port) || !is_port(port) ||
        inet_pton(is_ipv6 ? AF_INET6 : AF_INET, host.c_str(), &address) != 1) {
        return "must be an IPv4 address or an IPv6 address in brackets, then \":\" and a port";
    }
    return nullptr;
}

const char* check_host(const std::string& text) noexcept
{
    std::string_view name = text;
    const size_t colon = name.rfind(':');
    const bool has_port =
        colon != std::string_view::npos && name.find(']', colon) == std::string_view::npos;
    if (has_port) {
        if (!is_port(name.substr(colon + 1))) {
            return "must be a host name with an optional port";
        }
        name = name.substr(0, colon);
    }
    const bool in_brackets = name.size() > 2 && name.front() == '[' && name.back() == ']';
    const bool is_fine =
        in_brackets ? all_of(name.substr(1, name.size() - 2), ":.") : all_of(name, ".-_");
    return is_fine ? nullptr : "must be a host name with an optional port";
}

const char* check_choice(const char* choices, const std::string& text) noexcept
{
    std::string_view left = choices;
    while (!left.empty()) {
        const size_t bar = left.find('|');
        if (left.substr(0, bar) == text) {
            return nullptr;
        }
        left = bar == std::string_view::npos ? std::string_view() : left.substr(bar + 1);
    }
    return "is none of the choices";
}

const char* check_cpus(const std::string& text) noexcept
{
    cpu_set_t cpus;
    return text.empty() || cpus_parse(text, &cpus) == AOTX_OK
               ? nullptr
               : "must be processor numbers as \"0\", \"0,2\" or \"1-3\"";
}

const char* complete_path(std::string_view directory, std::string* text) noexcept
{
    if (text->find('\0') != std::string::npos) {
        return "holds a zero byte";
    }
    if (!text->empty() && text->front() != '/') {
        std::string whole(directory);
        if (whole.back() != '/') {
            whole += '/';
        }
        *text = whole + *text;
    }
    return nullptr;
}

}  // namespace

const char* text_check(TextForm form, const char* choices, std::string_view directory,
                       std::string* text) noexcept
{
    switch (form) {
        case TextForm::Any:
            return nullptr;
        case TextForm::Path:
            return complete_path(directory, text);
        case TextForm::Library:
            return text->find('/') == std::string::npos ? nullptr : complete_path(directory, text);
        case TextForm::Choice:
            return check_choice(choices, *text);
        case TextForm::Address:
            return check_address(*text);
        case TextForm::Host:
            return check_host(*text);
        case TextForm::Alias:
            return all_of(*text, "._:/-") ? nullptr : "may hold A-Z a-z 0-9 . _ : / - only";
        case TextForm::Cpus:
            return check_cpus(*text);
        case TextForm::Hex:
            for (const char digit : *text) {
                if (aotx_hex_digit(digit) < 0) {
                    return "must be lower-case hex digits";
                }
            }
            return nullptr;
    }
    return "has no form";
}

bool address_is_loopback(const std::string& address) noexcept
{
    if (address_is_unix(address)) {
        return true;
    }
    std::string host;
    bool is_ipv6 = false;
    std::string_view port;
    if (!split_address(address, &host, &is_ipv6, &port)) {
        return false;
    }
    if (is_ipv6) {
        in6_addr parsed = {};
        return inet_pton(AF_INET6, host.c_str(), &parsed) == 1 && IN6_IS_ADDR_LOOPBACK(&parsed);
    }
    in_addr parsed = {};
    return inet_pton(AF_INET, host.c_str(), &parsed) == 1 && (ntohl(parsed.s_addr) >> 24) == 127;
}

}  // namespace aotx
