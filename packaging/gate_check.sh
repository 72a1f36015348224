#!/usr/bin/env bash
# gate.sh with a saved baseline: faster, slower, inconclusive, no baseline, and nothing left of an earlier job.
#
#   gate_check.sh PROGRAM
set -euo pipefail
program=$(realpath "$1")
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
slow='examples/shm/shm-2gpu_[01].sqlite'
fast='examples/shm/shm-2gpu-bf16-bucket100_[01].sqlite'
"$program" report "$slow" --quiet -o "$out/slow.json"
"$program" report "$fast" --quiet -o "$out/fast.json"
export NSYSNCCL=$program NSYSNCCL_OUT=$out/result GITHUB_STEP_SUMMARY=$out/summary.md

# expect STATUS VERDICT BASELINE PERCENT REPORTS
expect() {
    local status=0 said
    : >"$GITHUB_STEP_SUMMARY"
    said=$(packaging/gate.sh "$3" "$4" "$5" 2>"$out/errors") || status=$?
    if [ "$status" != "$1" ] || [ "${said%%[: (]*}" != "$2" ]; then
        echo "gate.sh $3 $4 $5: status $status, '$said' instead of $1, '$2'" >&2
        cat "$out/errors" >&2
        exit 1
    fi
    if [ "$1" = 3 ]; then
        [ ! -e "$out/result/comparison.md" ]
        [ ! -s "$GITHUB_STEP_SUMMARY" ]
        grep -q "$3" "$out/errors"
    else
        [ -s "$out/result/comparison.html" ]
        [ -s "$out/result/comparison.json" ]
        cmp "$out/result/comparison.md" "$GITHUB_STEP_SUMMARY"
    fi
}
expect 0 passed "$out/slow.json" 5 "$fast"
expect 1 failed "$out/fast.json" 5 "$slow"
expect 5 inconclusive "$out/slow.json" 1 "$slow"
expect 3 no "$out/absent.json" 5 "$fast"
echo "gate.sh: passed, failed, inconclusive and no comparison are told apart"
