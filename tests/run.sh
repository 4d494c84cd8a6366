#!/bin/sh
# usage: sh tests/run.sh [--quick]
# Purpose:  every test there is: install what is missing, build, run; then the programs built again with sanitizers,
#           and the service with real clients. --quick leaves the sanitizers out.
# Owns:     build, build-asan and build-tsan at the top, and .aotx for the model.
# Thread:   one.
# Lifetime: one run. The last line is "N passed, N failed, N skipped", one test program counted once for each build
#           that it ran in; exit 1 when any failed or none ran.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
quick=no
case "${1:-}" in
    '') ;;
    --quick) quick=yes ;;
    *) echo "usage: sh tests/run.sh [--quick]" >&2; exit 2 ;;
esac

# Test programs in which threads meet; the rest has nothing for ThreadSanitizer to find, and building it twice more
# costs minutes. Each name is a target and a test.
tsan_tests="
    sdk_mailbox sdk_broker_client
    flashrt_builder_test flashrt_loader_test flashrt_exec_test
    loop_requests loop_handshake loop_simulation loop_cuda_backend_test
    worker_pool_test
    broker_test base_test notify_test
    test_gateway_service test_gateway_transport
"
# Programs that parse, own memory or cross the ABI, for the address and undefined behaviour sanitizers. Header matrices,
# documents and tests that start installed programs prove nothing more there, and a whole second build costs minutes.
asan_tests="
    sdk_packets sdk_golden sdk_handles sdk_text_provider sdk_broker_client sdk_handle_fuzz sdk_packet_fuzz
    flashrt_builder_test flashrt_exec_test flashrt_exec_cuda_test flashrt_reach_test flashrt_producers_test
    flashrt_loader_test flashrt_conformance_test
    core_operations core_model core_submission core_sample fuzz_core_packets
    loop_requests loop_simulation loop_cuda_backend_test loop_cuda_requests_test
    test_kernels_cpu kernels_cuda_matmul_test kernels_cuda_attention_test
    test_text_forward text_cuda_test text_gguf_test text_tokenizer_test text_chat_test text_fuzz_gguf
    text_fuzz_tokenizer text_fuzz_chat
    broker_test config_test base_test
    test_gateway_head test_gateway_access test_gateway_chat_request test_gateway_transport test_gateway_service
    fuzz_gateway_head fuzz_gateway_chunk fuzz_gateway_chat fuzz_gateway_utf8 fuzz_gateway_grants
"
# Real processes of that build under real clients, for what only a whole service does.
asan_service="service_test answers_test"
asan_programs="aotxd aotx-gateway aotx_scripted"

say() { printf '\n== %s (%s s)\n' "$*" "$(($(date +%s) - started))"; }
started=$(date +%s)

say "packages"
sh packaging/install_packages.sh build model test

say "model"
# Without the model file the tests that need it say that they were skipped; everything else still counts.
sh packaging/fetch_model.sh || echo "the model could not be fetched"

results=""
failed_step=no

# names_pattern NAMES: a pattern that matches each of them whole.
names_pattern() {
    # shellcheck disable=SC2086
    echo "^($(echo $1 | tr ' ' '|'))\$"
}

# build FOLDER TARGETS CMAKE_OPTION...; no targets: all
build() {
    folder=$1
    targets=$2
    shift 2
    cmake -S . -B "$folder" -G Ninja -DPython3_EXECUTABLE="$python" "$@" > "$folder.configure.log" 2>&1 ||
        { cat "$folder.configure.log"; return 1; }
    rm -f "$folder.configure.log"
    # shellcheck disable=SC2086
    ninja -C "$folder" $targets > "$folder/build.log" 2>&1 || { tail -n 60 "$folder/build.log"; return 1; }
}

# check FOLDER CTEST_OPTION...
check() {
    folder=$1
    shift
    rm -f "$folder/results.xml"
    AOTX_BUILD=$top/$folder ctest --test-dir "$folder" --output-on-failure --timeout 300 -j 2 \
        --output-junit "$top/$folder/results.xml" "$@" || true
    results="$results $folder/results.xml"
}

say "client packages"
# Every test in Python runs with this one, so that clients which are installed here are not skipped.
python=$top/build/venv/bin/python
mkdir -p build
[ -x "$python" ] || python3 -m venv build/venv
"$python" -m pip --disable-pip-version-check install --quiet -r tests/clients/requirements.txt || failed_step=yes
[ -d build/clients-newer ] || "$python" -m pip --disable-pip-version-check install --quiet --target build/clients-newer \
    -r tests/clients/requirements-newer.txt || failed_step=yes

say "build"
if build build "" -DCMAKE_BUILD_TYPE=RelWithDebInfo; then
    say "tests"
    check build
else
    failed_step=yes
fi

# sanitized SANITIZERS FOLDER NAMES [TESTS PROGRAMS]: those programs and tests in a build of their own, and tests that
# need other programs. It keeps a release build's checks but optimises less, because these builds take the most time
# and their tests hardly any.
sanitized() {
    flags="-O1 -g1 -DNDEBUG"
    say "$1: build"
    if build "$2" "$3 ${5:-}" "-DCMAKE_C_FLAGS_RELWITHDEBINFO=$flags" "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=$flags" \
        "-DAOTX_SANITIZE=$1"; then
        say "$1: tests"
        check "$2" -R "$(names_pattern "$3 ${4:-}")"
    else
        failed_step=yes
    fi
}

if [ "$quick" = no ]; then
    sanitized address,undefined build-asan "$asan_tests" "$asan_service" "$asan_programs"
    sanitized thread build-tsan "$tsan_tests"
fi

say "sum"
# The files are told by name: one that is missing is a failure, not a silence.
# shellcheck disable=SC2086
python3 tests/support/sum_results.py --failed-step "$failed_step" $results
