// Purpose:  readiness messages: only the child's own count, and nothing comes in beside them.
// Owns:     nothing.
// Thread:   main.
// Lifetime: one run.
#include "service/base/notify.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace aotx;

namespace {

// Let a child send a message to the socket of this name; its process ID.
pid_t child_sends(const std::string& name, const char* message)
{
    const pid_t child = fork();
    if (child == 0) {
        setenv("NOTIFY_SOCKET", name.c_str(), 1);
        notify_send(message);
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return child;
}

}  // namespace

TEST_CASE("a child's readiness is heard, another's is not")
{
    std::string name;
    const Fd socket = notify_listen(&name);
    REQUIRE(socket.valid());
    CHECK_FALSE(notify_is_ready(socket, getpid()));
    pid_t child = child_sends(name, "READY=1");
    CHECK(notify_is_ready(socket, child));
    CHECK_FALSE(notify_is_ready(socket, child));
    child = child_sends(name, "READY=1");
    CHECK_FALSE(notify_is_ready(socket, child + 1));
    child = child_sends(name, "STATUS=fine\nREADY=1\n");
    CHECK(notify_is_ready(socket, child));
    child = child_sends(name, "READY=10");
    CHECK_FALSE(notify_is_ready(socket, child));
}

TEST_CASE("without a supervisor nothing happens")
{
    unsetenv("NOTIFY_SOCKET");
    notify_send("READY=1");
    for (const char* const name :
         {"", "relative", "@", "/nowhere/at/all", "@nobody-listens-here"}) {
        setenv("NOTIFY_SOCKET", name, 1);
        notify_send("READY=1");
    }
    unsetenv("NOTIFY_SOCKET");
}
