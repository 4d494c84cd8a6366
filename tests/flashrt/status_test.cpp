// Purpose:  what every code of every space becomes on the device, against the page that says so.
// Owns:     nothing.
// Thread:   one.
// Lifetime: the test program.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "cuda/loop/runtime_status.h"

namespace {

using aotx::CodeSpace;

const std::map<std::string, CodeSpace> kSpaces = {
    {"verb", CodeSpace::verb}, {"opaque", CodeSpace::opaque}, {"decode", CodeSpace::decode},
    {"open", CodeSpace::open}, {"step", CodeSpace::step},     {"exec", CodeSpace::exec},
    {"load", CodeSpace::load}};

std::string trimmed(const std::string& text)
{
    const size_t first = text.find_first_not_of(' ');
    return first == std::string::npos ? ""
                                      : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

TEST_CASE("the table of device statuses is the one that the page prints", "[status]")
{
    std::ifstream page("docs/providers.md");  // tests run at the top of the tree
    REQUIRE(page);
    size_t named = 0;
    std::map<std::string, int> others;
    for (std::string line; std::getline(page, line);) {
        std::stringstream cells(line);
        std::string empty, space, code, status, meaning;
        std::getline(cells, empty, '|');
        std::getline(cells, space, '|');
        std::getline(cells, code, '|');
        std::getline(cells, status, '|');
        std::getline(cells, meaning, '|');
        const auto found = kSpaces.find(trimmed(space));
        if (found == kSpaces.end() || trimmed(meaning).empty()) {
            continue;
        }
        INFO(line);
        const uint32_t want =
            trimmed(status) == "-" ? 0u : static_cast<uint32_t>(std::stoul(trimmed(status)));
        if (trimmed(code) == "anything else") {
            others[found->first] = 1;
            for (const int strange : {-9, -8, 1, 719, INT32_MIN, INT32_MAX}) {
                CHECK(aotx::device_status(found->second, strange) == want);
            }
            continue;
        }
        named++;
        const aotx::CodeMeaning& row = aotx::code_meaning(found->second, std::stoi(code));
        CHECK(row.status == want);
        CHECK(row.text == trimmed(meaning));
    }
    CHECK(named == sizeof aotx::kCodeMeanings / sizeof aotx::kCodeMeanings[0]);
    CHECK(others.size() == kSpaces.size());
}

TEST_CASE("only success lets a request go on, and no code is named twice", "[status]")
{
    for (const aotx::CodeMeaning& row : aotx::kCodeMeanings) {
        INFO(static_cast<uint32_t>(row.space) << " " << row.code);
        CHECK((row.status == AOTX_STATUS_NONE) == (row.code == 0));
        CHECK(&aotx::code_meaning(row.space, row.code) == &row);
    }
}
