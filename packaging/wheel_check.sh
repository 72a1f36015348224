#!/usr/bin/env bash
# Builds the wheel, installs it in a clean virtual environment and uses it there.
#
#   wheel_check.sh [PROFILE [FOLDER]]     release where none is named; its artefacts in target/ are used again
#
# The wheel is left in FOLDER, if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python3 -m venv "$out/build"
"$out/build/bin/pip" install --quiet 'maturin>=1.9,<2'
"$out/build/bin/maturin" build --locked --profile "${1:-release}" --target-dir target --out "$out/wheels" --quiet
python3 -m venv "$out/clean"
"$out/clean/bin/pip" install --quiet "$out"/wheels/nsysnccl-*.whl
# pandas is optional: the rest is tested where it cannot be had.
"$out/clean/bin/pip" install --quiet pandas || echo "pandas cannot be installed"
echo "wheel: $(stat -c '%n, %s bytes' "$out"/wheels/*.whl | sed 's|.*/||')"
# Elsewhere, so that what is tested is what was installed.
cd "$out"
clean/bin/python -B "$root/packaging/wheel_check.py" "$root"
if [ $# -ge 2 ]; then
    cd "$root"
    mkdir -p "$2"
    cp "$out"/wheels/*.whl "$2"
fi
