#!/usr/bin/env python3
"""Purpose:  the installed SDK: a stranger's small programs find it through CMake and through pkg-config, also after the
          whole prefix has moved: headers, the builder's library with the producer that docs/producers.md prints, and
          the conformance suite as a program and as a library.
Owns:     a scratch folder.
Thread:   one.
Lifetime: one run. package_test.py BUILD_FOLDER"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

C_SOURCE = """#include <aotx/aotx.h>
#include <flashrt/model_runtime.h>
int main(void)
{
    aotx_request_head head;
    aotx_request_head_begin(&head, AOTX_OPERATION_INFORMATION, NULL, 0);
    return head.magic == AOTX_MAGIC && aotx_request_shape_check(&head) == AOTX_OK ? 0 : 1;
}
"""
CPP_SOURCE = """#include <aotx/broker_client.hpp>
#include <flashrt/builder.hpp>
int main()
{
    static aotx::BrokerClient client;
    return client.connect("/nowhere/service.sock") == AOTX_ERR_SYSTEM ? 0 : 1;
}
"""
# A test of one's own around the suite: it must see the heap being counted, and a broken rule by name.
CHECK_SOURCE = """#include <flashrt/conformance/allocation_calls.h>
#include <flashrt/conformance/conformance.h>
#include <cstdio>
int main(int argc, char** argv)
{
    using namespace flashrt::conformance;
    Options options;
    options.library = argv[argc - 2];
    options.config = argv[argc - 1];
    options.ticks = 20;
    options.allocation_calls = allocation_calls;
    unsigned passed = 0;
    const std::vector<Finding> findings = run(options);
    for (const Finding& finding : findings) {
        passed += finding.verdict == Verdict::pass ? 1u : 0u;
        if (finding.rule == "hot.allocations" || finding.verdict == Verdict::fail) {
            std::printf("%s %s\\n", verdict_name(finding.verdict), finding.rule.c_str());
        }
    }
    return failed(findings) || passed < 40 ? 1 : 0;
}
"""
CONFIG = '{"limit": 0.1}'
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(stranger LANGUAGES C CXX)
find_package(aotx 0.1 REQUIRED)
add_executable(stranger_c stranger.c)
target_link_libraries(stranger_c PRIVATE aotx::sdk)
add_executable(stranger_cpp stranger.cpp)
set_target_properties(stranger_cpp PROPERTIES CXX_STANDARD 17)
target_link_libraries(stranger_cpp PRIVATE aotx::sdk)
add_library(follow SHARED follow.c)
target_compile_options(follow PRIVATE -fvisibility=hidden)
target_link_libraries(follow PRIVATE aotx::flashrt_runtime)
add_executable(stranger_check check.cpp)
set_target_properties(stranger_check PROPERTIES CXX_STANDARD 17)
target_link_libraries(stranger_check PRIVATE aotx::flashrt_conformance aotx::flashrt_heap_calls)
add_custom_target(prove ALL COMMAND aotx::flashrt_check $<TARGET_FILE:follow> --config [[{"limit": 0.1}]] VERBATIM)
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def prove(program, library):
    """Our own test program finds the printed producer good, and the same with another configuration broken."""
    assert run(program, library, CONFIG) == "pass hot.allocations\n"
    done = subprocess.run([program, library, "{}"], capture_output=True, text=True)
    assert done.returncode == 1 and "FAIL factory.opens" in done.stdout, done.stdout


def through_cmake(source, prefix, folder):
    run("cmake", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", "-G", "Ninja")
    run("cmake", "--build", folder)
    for program in ("stranger_c", "stranger_cpp"):
        run(folder / program)
    prove(folder / "stranger_check", folder / "libfollow.so")
    cache = (folder / "CMakeCache.txt").read_text()
    assert f"aotx_DIR:PATH={prefix}/" in cache, "another aotx was found"


def check_program(program, library):
    """What flashrt-check says and answers, besides the findings."""
    rules = run(program, "--rules").splitlines()
    assert len(rules) == 71 and all(len(line.split(None, 1)) == 2 for line in rules), rules
    told = run(program, library, "--config", CONFIG)
    assert told.count("\n") == 1 and "0 broken, 0 warnings" in told, told
    assert "pass  factory.opens" in run(program, library, "--config", CONFIG, "--all", "--ticks", "3")
    for words in ([], ["--all"], [library, library], [library, "--ticks"], [library, "--ticks", "0"],
                  [library, "--ticks", "-1"], [library, "--ticks", "3x"], [library, "--feed", "nofile"],
                  [library, "--feed", "port=/nowhere"], [library, "--what"]):
        done = subprocess.run([program, *words], capture_output=True, text=True)
        assert done.returncode == 2 and done.stderr.startswith("usage:") and not done.stdout, words


def through_pkgconfig(source, prefix, folder):
    environment = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/share/pkgconfig"}
    flags = run("pkg-config", "--cflags", "--libs", "aotx", env=environment).split()
    assert any(str(prefix) in flag for flag in flags), flags
    assert run("pkg-config", "--modversion", "aotx", env=environment).strip() == "0.1.0"
    folder.mkdir()
    run("cc", "-std=c11", source / "stranger.c", *flags, "-o", folder / "c")
    run("c++", "-std=c++17", source / "stranger.cpp", *flags, "-o", folder / "cpp")
    for program in ("c", "cpp"):
        run(folder / program)
    environment["PKG_CONFIG_PATH"] += f":{next(prefix.glob('lib*/**/pkgconfig'))}"
    flags = run("pkg-config", "--cflags", "--libs", "flashrt_runtime", env=environment).split()
    rpath = next(flag[2:] for flag in flags if flag.startswith("-L"))
    run("cc", "-std=c11", "-fPIC", "-shared", "-fvisibility=hidden", source / "follow.c", *flags, f"-Wl,-rpath,{rpath}",
        "-o", folder / "libfollow.so")
    flags = run("pkg-config", "--cflags", "--libs", "flashrt_conformance", env=environment).split()
    run("c++", "-std=c++17", source / "check.cpp", *flags, "-o", folder / "check")
    prove(folder / "check", folder / "libfollow.so")
    check_program(prefix / "bin" / "flashrt-check", folder / "libfollow.so")


def main():
    build = Path(sys.argv[1])
    if shutil.which("pkg-config") is None:
        print("package: no pkg-config")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch).resolve()
        source = scratch / "stranger"
        source.mkdir()
        (source / "stranger.c").write_text(C_SOURCE)
        (source / "stranger.cpp").write_text(CPP_SOURCE)
        (source / "check.cpp").write_text(CHECK_SOURCE)
        page = (Path(__file__).parents[2] / "docs" / "producers.md").read_text()
        (source / "follow.c").write_text(page.split("```c file=follow.c\n")[1].split("```")[0])
        (source / "CMakeLists.txt").write_text(CMAKE)
        prefix = scratch / "prefix"
        run("cmake", "--install", build, "--prefix", prefix, "--component", "sdk")
        through_cmake(source, prefix, scratch / "cmake")
        through_pkgconfig(source, prefix, scratch / "pc")
        moved = scratch / "else" / "where"
        moved.parent.mkdir()
        prefix.rename(moved)
        through_cmake(source, moved, scratch / "cmake-moved")
        through_pkgconfig(source, moved, scratch / "pc-moved")
    print("package: found through CMake and pkg-config, before and after it moved")
    return 0


if __name__ == "__main__":
    sys.exit(main())
