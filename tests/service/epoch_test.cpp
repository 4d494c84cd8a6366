// Purpose:  epochs rise whatever happens, and the state directory has one owner.
// Owns:     a directory of its own under the temporary one.
// Thread:   main.
// Lifetime: one run.
#include "service/aotxd/epoch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "aotx/status.h"

using namespace aotx;

namespace {

struct Scratch {
    Scratch()
    {
        char name[] = "/tmp/aotx_epoch_XXXXXX";
        REQUIRE(mkdtemp(name) != nullptr);
        path = std::string(name) + "/state";
        parent = name;
    }
    ~Scratch()
    {
        unlink((path + "/epoch").c_str());
        unlink((path + "/epoch.new").c_str());
        rmdir(path.c_str());
        rmdir((path + "/epoch.new").c_str());
        CHECK(rmdir(parent.c_str()) == 0);
    }
    std::string path;
    std::string parent;
};

void write_file(const std::string& path, const std::string& text)
{
    std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("epochs rise with the clock, without it, and against it")
{
    const Scratch scratch;
    Fd lock;
    std::string error;
    REQUIRE(state_lock(scratch.path, &lock, &error) == AOTX_OK);
    const struct {
        uint64_t now;
        uint64_t epoch;
    } rows[] = {{1000, 1000}, {1000, 1001}, {1000, 1002}, {2000, 2000},
                {5, 2001},    {0, 2002},    {2002, 2003}, {2004, 2004}};
    for (const auto& row : rows) {
        uint64_t epoch = 0;
        REQUIRE(epoch_next(scratch.path, row.now, &epoch, &error) == AOTX_OK);
        CHECK(epoch == row.epoch);
    }
}

TEST_CASE("the first epoch is not zero, whatever the clock says")
{
    const Scratch scratch;
    Fd lock;
    std::string error;
    REQUIRE(state_lock(scratch.path, &lock, &error) == AOTX_OK);
    uint64_t epoch = 0;
    REQUIRE(epoch_next(scratch.path, 0, &epoch, &error) == AOTX_OK);
    CHECK(epoch == 1);
}

TEST_CASE("what a crash left half written does not count")
{
    const Scratch scratch;
    Fd lock;
    std::string error;
    REQUIRE(state_lock(scratch.path, &lock, &error) == AOTX_OK);
    write_file(scratch.path + "/epoch", "41\n");
    write_file(scratch.path + "/epoch.new", "9");
    uint64_t epoch = 0;
    REQUIRE(epoch_next(scratch.path, 7, &epoch, &error) == AOTX_OK);
    CHECK(epoch == 42);
}

TEST_CASE("a stored epoch that cannot be trusted stops the start")
{
    const Scratch scratch;
    Fd lock;
    std::string error;
    REQUIRE(state_lock(scratch.path, &lock, &error) == AOTX_OK);
    const struct {
        const char* text;
        int status;
    } rows[] = {{"", AOTX_ERR_SYNTAX},
                {"12", AOTX_ERR_SYNTAX},
                {"\n", AOTX_ERR_SYNTAX},
                {"-1\n", AOTX_ERR_SYNTAX},
                {"012\n", AOTX_ERR_SYNTAX},
                {"12 \n", AOTX_ERR_SYNTAX},
                {"18446744073709551616\n", AOTX_ERR_SYNTAX},
                {"111111111111111111111111111111111111111\n", AOTX_ERR_SYNTAX},
                {"18446744073709551615\n", AOTX_ERR_RANGE}};
    for (const auto& row : rows) {
        write_file(scratch.path + "/epoch", row.text);
        uint64_t epoch = 77;
        error.clear();
        CHECK(epoch_next(scratch.path, 5, &epoch, &error) == row.status);
        CHECK(epoch == 77);
        CHECK_FALSE(error.empty());
    }
}

TEST_CASE("an epoch that cannot be stored is not given out")
{
    const Scratch scratch;
    Fd lock;
    std::string error;
    REQUIRE(state_lock(scratch.path, &lock, &error) == AOTX_OK);
    // A directory in the place of the new file: it can neither be removed as a file nor replaced.
    REQUIRE(mkdir((scratch.path + "/epoch.new").c_str(), 0700) == 0);
    uint64_t epoch = 77;
    CHECK(epoch_next(scratch.path, 5, &epoch, &error) == AOTX_ERR_SYSTEM);
    CHECK(epoch == 77);
    REQUIRE(rmdir((scratch.path + "/epoch.new").c_str()) == 0);
}

TEST_CASE("a state directory has one owner at a time")
{
    const Scratch scratch;
    std::string error;
    {
        Fd first;
        Fd second;
        REQUIRE(state_lock(scratch.path, &first, &error) == AOTX_OK);
        CHECK(state_lock(scratch.path, &second, &error) == AOTX_ERR_STATE);
        CHECK_FALSE(second.valid());
    }
    Fd again;
    CHECK(state_lock(scratch.path, &again, &error) == AOTX_OK);
    CHECK(state_lock("/dev/null", &again, &error) == AOTX_ERR_SYSTEM);
    CHECK(state_lock(scratch.path + "/a/b", &again, &error) == AOTX_ERR_SYSTEM);
}
