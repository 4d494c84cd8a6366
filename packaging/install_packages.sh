#!/bin/sh
# usage: install_packages.sh SCOPE...   install those packages of debian-packages.txt that are missing.
# Purpose:  bring a Debian system to what a scope needs (build, model, test, bench, arm64); nothing else is touched.
# Owns:     nothing.
# Thread:   one.
# Lifetime: one run; exit 1 when something is missing and cannot be installed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

wanted_scopes=" $* "
missing=""
while read -r name scope _; do
    case "$name" in
        ''|'#'*) continue ;;
    esac
    case "$wanted_scopes" in
        *" $scope "*) is_installed "$name" || missing="$missing $name" ;;
    esac
done < "$here/debian-packages.txt"

[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1; then
    as_root="sudo"
else
    echo "install_packages.sh: these Debian packages are missing:$missing" >&2
    exit 1
fi
echo "installing:$missing" >&2
# Only packages with plain names come from the list, so splitting into words is what is wanted.
# shellcheck disable=SC2086
{
    $as_root apt-get update -q
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
} >&2
