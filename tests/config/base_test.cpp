// Purpose:  the helpers of service/base: base64, digests, small files, log lines.
// Owns:     a directory of its own under the temporary one.
// Thread:   main.
// Lifetime: one run.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "aotx/handle.h"
#include "aotx/status.h"
#include "guard_page.h"
#include "service/base/base64.h"
#include "service/base/cpus.h"
#include "service/base/digest.h"
#include "service/base/fd.h"
#include "service/base/file.h"
#include "service/base/log.h"

using namespace aotx;

namespace {

int decode(const std::string& text, std::string* bytes)
{
    const GuardCopy copy(text.data(), text.size());
    std::vector<uint8_t> out(base64_bytes_max(text.size()));
    size_t count = 0;
    const int status = base64_decode(copy.begin(), copy.size_bytes(), out.data(), &count);
    if (status == AOTX_OK) {
        bytes->assign(reinterpret_cast<const char*>(out.data()), count);
    }
    return status;
}

std::string encode(const std::string& bytes)
{
    const GuardCopy copy(bytes.data(), bytes.size());
    std::string text(base64_characters(bytes.size()), '?');
    CHECK(base64_encode(copy.bytes(), copy.size_bytes(), text.data()) == text.size());
    return text;
}

std::string hex(const uint8_t* bytes, size_t count)
{
    std::string text(2 * count, '?');
    aotx_hex_encode(bytes, count, text.data());
    return text;
}

}  // namespace

TEST_CASE("base64 of the published vectors")
{
    const struct {
        const char* bytes;
        const char* text;
    } rows[] = {{"", ""},
                {"f", "Zg=="},
                {"fo", "Zm8="},
                {"foo", "Zm9v"},
                {"foob", "Zm9vYg=="},
                {"fooba", "Zm9vYmE="},
                {"foobar", "Zm9vYmFy"}};
    for (const auto& row : rows) {
        CHECK(encode(row.bytes) == row.text);
        std::string bytes;
        CHECK(decode(row.text, &bytes) == AOTX_OK);
        CHECK(bytes == row.bytes);
    }
}

TEST_CASE("base64 goes there and back for every byte and length")
{
    std::string bytes;
    for (int i = 0; i < 256; i++) {
        bytes += static_cast<char>(i);
        std::string again;
        CHECK(decode(encode(bytes), &again) == AOTX_OK);
        CHECK(again == bytes);
    }
}

TEST_CASE("base64 refuses every second text of the same bytes")
{
    for (const char* const text : {"Zg", "Zg=", "Zh==", "Zm9=", "Zm9v=", "====", "Zg==Zg==", "Z===",
                                   "Zm9v\n", " Zm9", "Zm-_", "=m9v", "Zm=v"}) {
        std::string bytes;
        CHECK(decode(text, &bytes) == AOTX_ERR_SYNTAX);
    }
}

TEST_CASE("SHA-256 of the published vectors, in memory and of a file")
{
    uint8_t digest[kSha256Bytes];
    sha256("abc", 3, digest);
    CHECK(hex(digest, 32) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    char path[] = "/tmp/aotx_base_XXXXXX";
    const Fd file(mkstemp(path));
    REQUIRE(file.valid());
    CHECK(sha256_file(path, digest) == AOTX_OK);
    CHECK(hex(digest, 32) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    REQUIRE(write(file.get(), "abc", 3) == 3);
    CHECK(sha256_file(path, digest) == AOTX_OK);
    CHECK(hex(digest, 32) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    unlink(path);
    CHECK(sha256_file(path, digest) == AOTX_ERR_SYSTEM);
    CHECK(sha256_file("/", digest) == AOTX_ERR_SYSTEM);
}

TEST_CASE("comparison in constant time compares")
{
    CHECK(equal_in_constant_time("abc", "abc", 3));
    CHECK_FALSE(equal_in_constant_time("abc", "abd", 3));
}

TEST_CASE("small files are read whole, replaced whole, and judged for who can write them")
{
    char directory[] = "/tmp/aotx_file_XXXXXX";
    REQUIRE(mkdtemp(directory) != nullptr);
    const std::string path = std::string(directory) + "/f";
    std::string text = "kept";
    CHECK(file_read(path.c_str(), 10, &text) == AOTX_ERR_NOT_FOUND);
    CHECK(text == "kept");
    REQUIRE(file_replace(path, "0123456789", 0600) == AOTX_OK);
    CHECK(file_read(path.c_str(), 9, &text) == AOTX_ERR_LENGTH);
    CHECK(file_read(path.c_str(), 10, &text) == AOTX_OK);
    CHECK(text == "0123456789");
    REQUIRE(file_replace(path, "new", 0600) == AOTX_OK);
    CHECK(file_read_private(path.c_str(), 10, &text) == AOTX_OK);
    CHECK(text == "new");
    for (const mode_t mode : {0620u, 0602u}) {
        REQUIRE(chmod(path.c_str(), mode) == 0);
        CHECK(file_read_private(path.c_str(), 10, &text) == AOTX_ERR_STATE);
    }
    CHECK(file_read(directory, 10, &text) == AOTX_ERR_SYSTEM);
    const std::string fifo = std::string(directory) + "/fifo";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(file_read(fifo.c_str(), 10, &text) == AOTX_ERR_SYSTEM);
    CHECK(file_replace(std::string(directory) + "/none/f", "x", 0600) == AOTX_ERR_SYSTEM);
    unlink(fifo.c_str());
    unlink(path.c_str());
    CHECK(rmdir(directory) == 0);
}

TEST_CASE("a log line is one line, whatever is in it")
{
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const Fd kept(dup(STDERR_FILENO));
    REQUIRE(dup2(ends[1], STDERR_FILENO) >= 0);
    log_start("unit");
    log_line(LogLevel::Warning, "a\nb %s", "\x1b[2J");
    log_line(LogLevel::Debug, "not written");
    log_line(LogLevel::Error, "%s", std::string(5000, 'x').c_str());
    REQUIRE(dup2(kept.get(), STDERR_FILENO) >= 0);
    close(ends[1]);
    char text[8192];
    const ssize_t got = read(ends[0], text, sizeof text);
    close(ends[0]);
    REQUIRE(got > 0);
    const std::string lines(text, static_cast<size_t>(got));
    CHECK(lines.rfind("unit: warning: a?b ?[2J\nunit: error: xxx", 0) == 0);
    CHECK(lines.size() < 1100);
    CHECK(lines.back() == '\n');
}

TEST_CASE("processor lists are read whole or not at all")
{
    const struct {
        const char* text;
        std::vector<unsigned> cpus;  // empty: refused
    } rows[] = {
        {"0", {0}},
        {"1023", {1023}},
        {"0,2", {0, 2}},
        {"2,0", {0, 2}},
        {"1-3,8", {1, 2, 3, 8}},
        {"8,1-3", {1, 2, 3, 8}},
        {"", {}},
        {",", {}},
        {"0,", {}},
        {",0", {}},
        {"0,,1", {}},
        {"-", {}},
        {"1-", {}},
        {"-1", {}},
        {"3-1", {}},
        {"1-1", {}},
        {"1-2-3", {}},
        {"0,0", {}},
        {"0-2,1", {}},
        {"1024", {}},
        {"0-1024", {}},
        {"18446744073709551616", {}},
        {"00", {}},
        {"+1", {}},
        {" 1", {}},
        {"1 ", {}},
        {"0x1", {}},
        {"a", {}},
    };
    for (const auto& row : rows) {
        INFO("\"" << row.text << "\"");
        const GuardCopy copy(row.text, std::strlen(row.text));
        cpu_set_t found;
        CPU_ZERO(&found);
        CPU_SET(77, &found);
        const int status = cpus_parse({copy.begin(), copy.size_bytes()}, &found);
        CHECK(status == (row.cpus.empty() ? AOTX_ERR_SYNTAX : AOTX_OK));
        CHECK(CPU_COUNT(&found) == (row.cpus.empty() ? 1 : static_cast<int>(row.cpus.size())));
        for (const unsigned cpu : row.cpus) {
            CHECK(CPU_ISSET(cpu, &found));
        }
    }
}

TEST_CASE("a thread is placed on what is here, and told when nothing is")
{
    cpu_set_t before;
    REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
    CHECK(cpus_place("") == AOTX_OK);
    CHECK(cpus_place("one") == AOTX_ERR_SYNTAX);
    errno = 0;
    CHECK(cpus_place("1023") == AOTX_ERR_SYSTEM);
    CHECK(errno == EINVAL);
    cpu_set_t after;
    REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_EQUAL(&before, &after));

    unsigned first = 0;
    while (!CPU_ISSET(first, &before)) {
        first++;
    }
    REQUIRE(cpus_place(std::to_string(first)) == AOTX_OK);
    REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_COUNT(&after) == 1);
    CHECK(CPU_ISSET(first, &after));
    REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
}
