// Purpose:  whole conversations byte for byte: what a client sends, what the device does, and
// exactly what comes back, from files that a person can read and judge.
// Owns:     nothing.
// Thread:   the test's.
// Lifetime: one run.
//
// A file holds lines. "> text" is sent, with \r, \n and \xHH as escapes, "$TOKEN" as a credential
// and "$BODY(text)" as a JSON body with its length; "! produce|complete|fail|wait ..." is what the
// device does; "< text" is received. In what is received, dates, request identities and the time of
// creation read {date}, {id} and {created}; line ends read \r\n or \n.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>

#include "gateway_fixture.h"

namespace {

std::string unescape(const std::string& text)
{
    std::string out;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            out += text[i];
            continue;
        }
        const char kind = text[++i];
        if (kind == 'x') {
            out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
            i += 2;
        } else {
            out += kind == 'r' ? '\r' : kind == 'n' ? '\n' : kind;
        }
    }
    return out;
}

std::string replace(std::string text, const std::string& from, const std::string& to)
{
    const size_t at = text.find(from);
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// One "> " line as bytes.
std::string request_bytes(std::string text, const std::string& handle)
{
    text = replace(text, "$TOKEN", kTokenOne);
    text = replace(text, "$HANDLE", handle);
    const size_t body = text.find("$BODY(");
    if (body != std::string::npos) {
        const std::string inside = text.substr(body + 6, text.rfind(')') - body - 6);
        text = text.substr(0, body) + "Content-Type: application/json\\r\\nContent-Length: " +
               std::to_string(inside.size()) + "\\r\\n\\r\\n" + inside;
    }
    return unescape(text);
}

// Received bytes as the lines of a file.
std::vector<std::string> shown(std::string text)
{
    text = std::regex_replace(text, std::regex("Date: [^\r]*"), "Date: {date}");
    text = std::regex_replace(text, std::regex("-[0-9a-f]{32}"), "-{id}");
    text = std::regex_replace(text, std::regex("\"created\":[0-9]+"), "\"created\":{created}");
    std::vector<std::string> lines;
    std::string line;
    for (const char byte : text) {
        if (byte == '\r') {
            line += "\\r";
        } else if (byte == '\n') {
            lines.push_back(line + "\\n");
            line.clear();
        } else {
            line += byte;
        }
    }
    if (!line.empty()) {
        lines.push_back(line);
    }
    return lines;
}

void device_do(Gateway& gateway, const std::string& command)
{
    std::istringstream words(command);
    std::string verb;
    words >> verb;
    if (verb == "produce") {
        std::string text;
        std::getline(words >> std::ws, text);
        gateway.device->produce(unescape(text));
    } else if (verb == "complete") {
        std::string finish;
        words >> finish;
        gateway.device->complete(finish == "length" ? AOTX_FINISH_LENGTH : AOTX_FINISH_STOP);
    } else if (verb == "fail") {
        uint32_t phase = 0;
        uint32_t status = 0;
        words >> phase >> status;
        gateway.device->fail(phase, status);
    } else if (verb == "wait") {
        size_t count = 0;
        words >> count;
        REQUIRE(gateway.device->wait_requests(count));
    } else {
        FAIL("no such verb: " << verb);
    }
}

std::string last_handle(Gateway& gateway)
{
    if (gateway.device->request_count() == 0) {
        return {};
    }
    return "req-0123456789abcdef-" + hex_of(gateway.device->last().id.data(), 16);
}

// Receive until as many lines have come as the file expects next.
void expect(Client& client, const std::vector<std::string>& wanted)
{
    std::string received;
    std::vector<std::string> got;
    while (got.size() < wanted.size() ||
           (got.size() == wanted.size() && got.back().size() < wanted.back().size())) {
        if (client.pending().empty() && !client.fill(5000)) {
            break;
        }
        received += client.take_pending();
        got = shown(received);
    }
    CHECK(got == wanted);
}

void run(const std::filesystem::path& path)
{
    INFO(path.filename().string());
    Gateway gateway;
    Client client(gateway.port);
    std::ifstream file(path);
    std::string line;
    std::vector<std::string> wanted;
    while (std::getline(file, line)) {
        const std::string text = line.size() > 2 ? line.substr(2) : std::string();
        if (line.compare(0, 1, "<") == 0) {
            wanted.push_back(text);
            continue;
        }
        if (!wanted.empty()) {
            expect(client, wanted);
            wanted.clear();
        }
        if (line.compare(0, 1, ">") == 0) {
            client.send(request_bytes(text, last_handle(gateway)));
        } else if (line.compare(0, 1, "!") == 0) {
            device_do(gateway, text);
        }
    }
    if (!wanted.empty()) {
        expect(client, wanted);
    }
}

}  // namespace

TEST_CASE("conversations, byte for byte")
{
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator("tests/gateway/golden")) {
        paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    REQUIRE(paths.size() >= 6);
    for (const std::filesystem::path& path : paths) {
        run(path);
    }
}
