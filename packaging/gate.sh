#!/usr/bin/env bash
# Compares reports of a change with a saved baseline, for CI.
#
#   gate.sh BASELINE.json PERCENT REPORT.sqlite|FOLDER...
#
# BASELINE.json is of the main branch: nsysnccl report 'main_*.sqlite' -o BASELINE.json
# Writes comparison.md, .html and .json to $NSYSNCCL_OUT (this folder where unset); $NSYSNCCL is the program.
# Its status is that of nsysnccl: 0 passed, 1 slower by more than PERCENT, 5 inconclusive, 2 and 3 no comparison.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: gate.sh BASELINE.json PERCENT REPORT.sqlite|FOLDER..." >&2
    exit 2
fi
baseline=$1 percent=$2
shift 2
out=${NSYSNCCL_OUT:-.}
mkdir -p "$out"
# A comparison of an earlier job is not the result of this one.
rm -f "$out/comparison.md" "$out/comparison.html" "$out/comparison.json"

reports=()
for report in "$@"; do
    reports+=("change=$report")
done
status=0
"${NSYSNCCL:-nsysnccl}" compare "baseline=$baseline" "${reports[@]}" --baseline baseline --gate "$percent" --quiet \
    -o "$out/comparison.md" -o "$out/comparison.html" -o "$out/comparison.json" || status=$?
case $status in
    0) echo "passed: not slower by more than $percent %" ;;
    1) echo "failed: slower by more than $percent %" ;;
    5) echo "inconclusive: capture more steps, or each side twice" ;;
    *) echo "no comparison (status $status)" ;;
esac
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$out/comparison.md" ]; then
    cat "$out/comparison.md" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$status"
