#!/bin/sh
# usage: sh packaging/quickstart.sh [--once] [--port N]
# Purpose:  from a fresh clone to an answer: install what is missing, build, fetch the model, serve, ask, chat.
# Owns:     .aotx at the top: build, model, configuration, token, grants, state and log.
# Thread:   one, beside the service.
# Lifetime: until the chat ends; the service ends with it. With --once it ends after the first answer and fails
#           unless that names Paris.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
home=$top/.aotx
build=$home/build
once=no
port=8081
while [ $# -gt 0 ]; do
    case "$1" in
        --once) once=yes ;;
        --port) shift; port=${1:?--port needs a number} ;;
        --port=*) port=${1#--port=} ;;
        -h|--help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
        *) echo "quickstart.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift
done

say() { printf '\n== %s\n' "$*" >&2; }

say "installing what is missing"
sh "$top/packaging/install_packages.sh" build model
mkdir -p "$home"
chmod 700 "$home"

say "fetching the model, building the programs"
sh "$top/packaging/fetch_model.sh" "$home" > "$home/model.path" &
fetch=$!
cmake -S "$top" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DAOTX_TESTS=OFF > "$home/build.log" 2>&1 ||
    { cat "$home/build.log" >&2; exit 1; }
ninja -C "$build" aotxd aotx-gateway aotxctl aotx_text_gguf >> "$home/build.log" 2>&1 ||
    { tail -n 50 "$home/build.log" >&2; exit 1; }
wait "$fetch"
model=$(cat "$home/model.path")

config=$home/aotx.toml
token=$home/token
aotxctl=$build/bin/aotxctl
if [ ! -f "$config" ] || [ ! -f "$token" ]; then
    say "making a configuration with a fresh token and grants"
    rm -f "$config" "$token" "$home/grants.bin"
    cat > "$config.new" <<TOML
# Written by packaging/quickstart.sh; docs/configuration.md has every key.
[gateway]
bind = "127.0.0.1:$port"

[[models]]
alias = "smollm2"
role = "language"
path = "$(basename "$model")"

TOML
    "$aotxctl" token new --name quickstart --out "$token" >> "$config.new"
    mv "$config.new" "$config"
    "$aotxctl" grants make --config "$config"
fi
# A configuration that was edited since stays as it is, but for a port that is asked for now.
sed -i "s/^bind = \"127\.0\.0\.1:[0-9]*\"/bind = \"127.0.0.1:$port\"/" "$config"

say "starting the service on http://127.0.0.1:$port (log: $home/log)"
: > "$home/log"
"$build/bin/aotxd" --config "$config" 2>> "$home/log" &
service=$!
trap 'kill "$service" 2>/dev/null; wait "$service" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
until grep -q '^aotxd: info: ready' "$home/log"; do
    if ! kill -0 "$service" 2>/dev/null; then
        cat "$home/log" >&2
        exit 1
    fi
    sleep 0.1
done

question="What is the capital of France?"
say "$question"
"$aotxctl" chat --config "$config" --token-file "$token" --url "http://127.0.0.1:$port" \
    --model smollm2 --temperature 0 --max-tokens 64 "$question" | tee "$home/answer"
if [ "$once" = yes ]; then
    grep -q Paris "$home/answer"
    exit
fi
if [ -t 0 ]; then
    say "your turn"
    # At the default temperature of 1 so small a model rambles.
    "$aotxctl" chat --config "$config" --token-file "$token" --url "http://127.0.0.1:$port" \
        --model smollm2 --temperature 0.2 --top-p 0.9
else
    say "serving until this script is stopped; the token is in $token"
    wait "$service"
fi
