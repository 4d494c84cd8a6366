#!/usr/bin/env python3
"""Purpose:  the installed SDK: a stranger's small program finds it through CMake and through pkg-config, also after the
          whole prefix has moved.
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
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(stranger LANGUAGES C CXX)
find_package(aotx 0.1 REQUIRED)
add_executable(stranger_c stranger.c)
target_link_libraries(stranger_c PRIVATE aotx::sdk)
add_executable(stranger_cpp stranger.cpp)
set_target_properties(stranger_cpp PROPERTIES CXX_STANDARD 17)
target_link_libraries(stranger_cpp PRIVATE aotx::sdk)
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def through_cmake(source, prefix, folder):
    run("cmake", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", "-G", "Ninja")
    run("cmake", "--build", folder)
    for program in ("stranger_c", "stranger_cpp"):
        run(folder / program)
    cache = (folder / "CMakeCache.txt").read_text()
    assert f"aotx_DIR:PATH={prefix}/" in cache, "another aotx was found"


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
