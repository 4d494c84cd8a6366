#!/bin/sh
# usage: sh tests/arm64.sh
# Purpose:  the CPU kernels compiled for arm64 and their tests run there, on a machine of another kind: a cross
#           compiler and QEMU's user emulation. It proves the NEON code's results and says nothing of its speed.
# Owns:     build-arm64 at the top: objects, and a copy of Debian's arm64 package of Highway.
# Thread:   one.
# Lifetime: one run, about two minutes. Not part of tests/run.sh, because a machine of that kind runs the same tests
#           natively there. Installs the packages of scope arm64.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
compiler=aarch64-linux-gnu-g++
runner=qemu-aarch64-static
sh packaging/install_packages.sh arm64
for program in $compiler $runner apt-get dpkg-deb; do
    command -v "$program" > /dev/null || { echo "skipped: no $program" >&2; exit 77; }
done
out=$top/build-arm64
mkdir -p "$out/objects" "$out/include" "$out/apt/lists/partial"

# Highway's library for arm64, without making this machine's package manager know that architecture.
if [ ! -e "$out/root" ]; then
    options="-o APT::Architectures::=arm64 -o Dir::State::lists=$out/apt/lists -o Dir::Cache::pkgcache= \
-o Dir::Cache::srcpkgcache="
    # shellcheck disable=SC2086
    apt-get $options update -qq
    # shellcheck disable=SC2086
    (cd "$out/apt" && apt-get $options download -qq libhwy1:arm64)
    dpkg-deb -x "$out"/apt/libhwy1_*_arm64.deb "$out/root"
fi
libraries=$out/root/usr/lib/aarch64-linux-gnu
# Header-only packages of this machine, apart from its other headers.
cp -r /usr/include/hwy /usr/include/catch2 "$out/include/"

# The options of cuda/kernels/cpu/CMakeLists.txt.
disabled=$(sed -n 's/^set(AOTX_HWY_DISABLED "\(.*\)")$/\1/p' cuda/kernels/cpu/CMakeLists.txt)
includes="-I$top -I$top/sdk/include -I$top/tests/support -I$top/tests/kernels -I$out/include"
objects=""
for source in cuda/kernels/cpu/*.cpp tests/kernels/*_test.cpp tests/support/catch_main.cpp; do
    object=$out/objects/$(basename "$source" .cpp).o
    options="-std=c++20 -O2"
    case $source in
        cuda/*) options="-std=c++20 -O3 -ffp-contract=off -fno-tree-reassoc -fno-tree-ter -fno-exceptions -fno-rtti \
-Wall -Wextra -Werror" ;;
    esac
    echo "$source"
    # shellcheck disable=SC2086
    $compiler $options "-DHWY_DISABLED_TARGETS=($disabled)" -DHWY_WANT_AVX3_DL $includes -c "$source" -o "$object"
    objects="$objects $object"
done
# shellcheck disable=SC2086
$compiler $objects "$libraries/libhwy.so.1" -pthread -o "$out/test_kernels_cpu"
exec $runner -E LD_LIBRARY_PATH="$libraries" -L /usr/aarch64-linux-gnu "$out/test_kernels_cpu"
