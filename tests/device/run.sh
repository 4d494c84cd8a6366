#!/bin/sh
# Purpose:  check the CUDA backend on the card of this machine, in one go, and print one table.
# Owns:     the build folder build-device.
# Lifetime: one run of at most eight minutes; exit 0 when nothing failed, 77 without a card.
#
# Usage: sh tests/device/run.sh [--quick | --dry [BUILD]]
#   --quick  without the sanitizer run
#   --dry    no card: every step that can be run over the execution shim is, from an ordinary build folder ("build"),
#            the others are left out; it checks this script and what it calls, not a device
set -u
cd "$(dirname "$0")/../.." || exit 1
mode=${1:-}
build="build-device"
service_build=$build
device=cuda
if [ "$mode" = --dry ]; then
    build=${2:-build}
    service_build=$build/shim
    export AOTX_DEVICE_DRY=1  # figures are printed and not judged
fi
table=$(mktemp)
log=$(mktemp)
failed=0
began=$(date +%s)
trap 'rm -f "$table" "$log"' EXIT

line() { # name result text
    printf '%-12s %-9s %s\n' "$1" "$2" "$3" >>"$table"
    if [ "$2" = fail ]; then failed=1; fi
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
    case $1 in
        */*)
            if [ ! -x "$1" ]; then
                line "$name" "left out" "$1 is not built"
                return 1
            fi
            ;;
    esac
    start=$(date +%s)
    timeout "$limit" "$@" >"$log" 2>&1
    code=$?
    text=$(grep -v '^ *$' "$log" | tail -n 1 | cut -c1-130)
    case $code in
        0) line "$name" pass "$(($(date +%s) - start)) s; $text"; return 0 ;;
        77) line "$name" "left out" "$text" ;;
        124) line "$name" fail "not done in $limit s; $text" ;;
        *) line "$name" fail "$(grep -v '^ *$' "$log" | tail -n 3 | tr '\n' ' ' | cut -c1-200)" ;;
    esac
    return 1
}
card_check() { # as check, but only a card can do it
    if [ "$mode" = --dry ]; then
        line "$1" "left out" "a dry run; it needs a card"
        return 1
    fi
    check "$@"
}
finish() {
    cat "$table"
    echo "commit $(git rev-parse --short HEAD 2>/dev/null), $(($(date +%s) - began)) seconds"
    exit "$1"
}
memory_free() {
    nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits -i 0 2>/dev/null || echo 0
}

# The card, or a sentence that says what is missing.
if [ "$mode" = --dry ]; then
    line machine "left out" "a dry run over the execution shim of $build"
elif ! command -v nvidia-smi >/dev/null; then
    line machine "left out" "no card was found: nvidia-smi, which comes with the driver, is not on this machine"
    finish 77
elif ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
    line machine "left out" "no card was found: there is a driver, but it lists no GPU"
    finish 77
else
    PATH=$PATH:/usr/local/cuda/bin
    card=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader -i 0)
    if ! command -v nvcc >/dev/null; then
        line machine "left out" "$card; nothing can be built for it: no nvcc in PATH or /usr/local/cuda/bin"
        finish 77
    fi
    line machine pass "$card"
    code=$(echo "$card" | awk -F', *' '{gsub(/\./, "", $3); print $3}')
    if ! cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DAOTX_DEVICE_TESTS=ON -DAOTX_BENCH=ON \
        -DAOTX_CUDA_ARCHITECTURES="$code" >"$log" 2>&1; then
        line build fail "cmake: $(tail -n 1 "$log")"
        finish 1
    fi
    # What cannot be built leaves its own steps out and no others.
    check build 240 ninja -C "$build" -k 0 aotx_cuda aotxd aotx-gateway aotxctl aotx_scripted bench_operation \
        device_check device_attention device_matmul device_requests_test device_simulation_test \
        device_allocation_test device_text
fi

# The loop: the tests of the CPU backend over this one.
free_before=$(memory_free)
stepped=no
if [ "$mode" = --dry ]; then
    check conformance 60 "$build/bin/loop_cuda_requests_test"
    check clients 60 "$build/bin/loop_cuda_simulation_test"
    check steps 60 env AOTX_TEST_STEPS=1000 "$build/bin/loop_cuda_allocation_test"
else
    check conformance 60 "$build/bin/device_requests_test"
    check clients 60 "$build/bin/device_simulation_test"
    check steps 120 "$build/bin/device_allocation_test" "a million steps allocate nothing" && stepped=yes
fi
free_after=$(memory_free)
if [ "$mode" = --dry ]; then
    line memory "left out" "a dry run; it needs a card"
elif [ "$stepped" = no ]; then
    line memory "left out" "the steps were not run to their end"
elif [ "$free_before" = "$free_after" ]; then
    line memory pass "$free_after MiB free before and after a million steps"
else
    line memory fail "$free_before MiB free before a million steps, $free_after after"
fi

# The service: its own tests, an operation's round trip, an idle device, a stop under load.
export AOTX_BUILD="$PWD/$service_build" AOTX_TEST_DEVICE=$device
if [ -x "$service_build/bin/aotxd" ]; then
    check service 60 python3 -B tests/service/service_test.py
    if [ -x "$build/bin/bench_operation" ]; then
        check operation 60 python3 -B tests/device/service_check.py operation "$build/bin/bench_operation"
    else
        line operation "left out" "$build/bin/bench_operation is not built (AOTX_BENCH=ON)"
    fi
    check idle 40 python3 -B tests/device/service_check.py idle
    check stop 40 python3 -B tests/device/service_check.py stop
else
    for name in service operation idle stop; do line $name "left out" "$service_build/bin/aotxd is not built"; done
fi

# The kernels, and what must not wait for the loop.
if [ "$mode" = --dry ]; then
    check kernels 30 "$build/bin/kernels_cuda_attention_test"
    check matrices 30 "$build/bin/kernels_cuda_matmul_test"
else
    check kernels 60 "$build/bin/device_attention"
    check matrices 60 "$build/bin/device_matmul"
fi
for loading in LAZY EAGER; do
    export CUDA_MODULE_LOADING=$loading
    card_check "waits $loading" 60 "$build/bin/device_check" waits
    unset CUDA_MODULE_LOADING
done
if [ "$mode" = --dry ] || [ ! -x "$build/bin/device_check" ]; then
    line blocking "left out" "device_check is not built, or a dry run"
elif CUDA_LAUNCH_BLOCKING=1 timeout 20 "$build/bin/device_check" machine >"$log" 2>&1; then
    line blocking fail "CUDA_LAUNCH_BLOCKING=1 was not refused"
else
    line blocking pass "$(tail -n 1 "$log" | cut -c1-100)"
fi
memory_check() { # name program argument
    for program in compute-sanitizer "$2"; do
        if ! command -v "$program" >/dev/null; then
            line "$1" "left out" "$program is not here"
            return 1
        fi
    done
    card_check "$1" 60 compute-sanitizer --error-exitcode 9 "$2" "$3"
}
if [ "$mode" != --quick ]; then
    memory_check "mem matrix" "$build/bin/device_check" short
    memory_check "mem text" "$build/bin/device_attention" "attention equals*,the choice of a token*"
    memory_check "mem tick" "$build/bin/device_requests_test" "limits that are no multiples*"
else
    line sanitizer "left out" "--quick"
fi

# Figures, and the text runtime against the CPU's.
copy=0
if card_check rates 60 "$build/bin/device_check" rates; then
    cat "$log"
    copy=$(sed -n 's/^copy: \([0-9]*\) GB.*/\1/p' "$log")
fi
model=
[ "$mode" = --dry ] || check kinds 60 "$build/bin/device_text" kinds
model=$(sh packaging/fetch_model.sh 2>/dev/null | tail -n 1)
if [ "$mode" = --dry ] || [ -f "$model" ]; then
    card_check numerics 90 "$build/bin/device_text" numerics "$model"
    if card_check decode 60 "$build/bin/device_text" speed "$model"; then
        cat "$log"
    fi
else
    line numerics "left out" "the model could not be fetched"
    line decode "left out" "the model could not be fetched"
fi
if card_check billion 120 "$build/bin/device_text" billion "$copy"; then
    cat "$log"
fi
finish "$failed"
