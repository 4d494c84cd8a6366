#!/bin/sh
# Purpose:  check the CUDA backend on the card of this machine, in one go, and print one table.
# Owns:     the build folder build-device.
# Lifetime: one run of at most eight minutes; exit 0 when nothing failed, 77 without a card.
#
# Usage: sh tests/device/run.sh [--quick]
set -u
cd "$(dirname "$0")/../.."
quick=${1:-}
build=build-device
table=$(mktemp)
log=$(mktemp)
failed=0
began=$(date +%s)
trap 'rm -f "$table" "$log"' EXIT

line() { # name result text
    printf '%-12s %-9s %s\n' "$1" "$2" "$3" >>"$table"
    [ "$2" = fail ] && failed=1
}
left() { # seconds left of the eight minutes
    echo $((480 - $(date +%s) + began))
}
check() { # name seconds command...
    name=$1
    limit=$2
    shift 2
    [ "$(left)" -lt "$limit" ] && limit=$(left)
    if [ "$limit" -le 5 ]; then
        line "$name" "left out" "no time left"
        return 1
    fi
    start=$(date +%s)
    if timeout "$limit" "$@" >"$log" 2>&1; then
        line "$name" pass "$(($(date +%s) - start)) s; $(tail -n 1 "$log" | cut -c1-90)"
        return 0
    fi
    line "$name" fail "$(tail -n 3 "$log" | tr '\n' ' ' | cut -c1-160)"
    return 1
}
finish() {
    cat "$table"
    echo "commit $(git rev-parse --short HEAD 2>/dev/null), $(($(date +%s) - began)) seconds"
    exit "$1"
}

if ! command -v nvidia-smi >/dev/null || ! command -v nvcc >/dev/null; then
    line machine "left out" "no driver or no nvcc on this machine"
    finish 77
fi
card=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader | head -n 1)
if [ -z "$card" ]; then
    line machine "left out" "a driver, but no card"
    finish 77
fi
line machine pass "$card"
code=$(echo "$card" | awk -F', *' '{gsub(/\./, "", $3); print $3}')

cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DAOTX_DEVICE_TESTS=ON \
    -DAOTX_CUDA_ARCHITECTURES="$code" >"$log" 2>&1 || { line build fail "cmake: $(tail -n 1 "$log")"; finish 1; }
check build 300 ninja -C "$build" aotx_cuda device_check device_requests_test device_text || finish 1

free_before=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits | head -n 1)
check conformance 60 "$build/bin/device_requests_test"
check kernels 60 "$build/bin/device_check" kernels
for mode in LAZY EAGER; do
    CUDA_MODULE_LOADING=$mode check "waits $mode" 60 "$build/bin/device_check" waits
done
if CUDA_LAUNCH_BLOCKING=1 timeout 20 "$build/bin/device_check" machine >"$log" 2>&1; then
    line blocking fail "CUDA_LAUNCH_BLOCKING=1 was not refused"
else
    line blocking pass "$(tail -n 1 "$log" | cut -c1-100)"
fi
free_after=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits | head -n 1)
if [ "$free_before" = "$free_after" ]; then
    line memory pass "$free_after MiB free before and after"
else
    line memory fail "$free_before MiB free before, $free_after after"
fi
if [ "$quick" != --quick ] && command -v compute-sanitizer >/dev/null; then
    check sanitizer 90 compute-sanitizer --error-exitcode 9 "$build/bin/device_check" short
else
    line sanitizer "left out" "not installed, or --quick"
fi
copy=0
if check rates 60 "$build/bin/device_check" rates; then
    cat "$log"
    copy=$(sed -n 's/^copy: \([0-9]*\) GB.*/\1/p' "$log")
fi
model=$(sh packaging/fetch_model.sh 2>/dev/null | tail -n 1)
if [ -f "$model" ]; then
    check numerics 90 "$build/bin/device_text" numerics "$model"
    if check decode 60 "$build/bin/device_text" speed "$model"; then
        cat "$log"
    fi
else
    line numerics "left out" "the model could not be fetched"
fi
if check billion 120 "$build/bin/device_text" billion "$copy"; then
    cat "$log"
fi
finish "$failed"
