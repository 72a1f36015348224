#!/usr/bin/env python3
"""Holds the JSON of every command against docs/schema: nothing may be there that a schema does not name, or be missing.

usage: check.py NSYSNCCL [FOLDER_OF_CAPTURES]    needs the Python package jsonschema
"""
import copy
import json
import pathlib
import subprocess
import sys

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]


def schema(name):
    whole = json.loads((ROOT / "docs/schema" / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(whole)
    return jsonschema.Draft202012Validator(whole)


def examples(captures):
    """Commands whose JSON is looked at: with every optional part, on what is there."""
    shm = ROOT / "examples/shm"
    reports = sorted(map(str, shm.glob("shm-2gpu_*.sqlite")))
    everything = ["--nccl-log", shm / "shm-2gpu.nccl.log", "--topo", shm / "topo.txt", "--inspector", shm / "shm-2gpu_inspector"]
    yield "report", ["report", *reports, *everything, "--what-if"]
    yield "report", ["report", *reports, "--no-replay"]
    yield "compare", ["compare", *sorted(map(str, shm.glob("*.sqlite"))), "--baseline", "shm-2gpu"]
    yield "inspect", ["inspect", shm / "shm-2gpu_inspector"]
    yield "inspect", ["inspect", ROOT / "tests/data/inspector/v2.30.7", "--against", ROOT / "tests/data/inspector/v2.28.9"]
    yield "doctor", ["doctor", ROOT / "examples", ROOT / "tests/data"]
    yield "npkit", ["npkit", ROOT / "tests/data/npkit/sendrecv/dump"]
    if captures:
        of = lambda pattern: sorted(map(str, captures.glob(pattern)))
        for pattern in ["eight/par3d_*.sqlite", "eight/ddp-8rank_*.sqlite", "tensor-parallel/tp-2gpu_*.sqlite", "graph/graph-2gpu_*.sqlite",
                        "peer-copy/symm-ce_*.sqlite", "onefile/*.sqlite", "what-if/ddp_*.sqlite"]:
            yield "report", ["report", *of(pattern)]
        yield "report", ["report", *of("npkit-real/slow/*.sqlite"), "--npkit", captures / "npkit-real/slow/dump"]
        yield "compare", ["compare", f"a={captures}/repeats/ddp-run1_*.sqlite", f"b={captures}/repeats/view-run1_*.sqlite", "--gate", "5"]
        yield "inspect", ["inspect", captures / "inspector"]
        yield "doctor", ["doctor", captures]
        yield "npkit", ["npkit", captures / "npkit-real/p2p/dump"]


def faults(validator, document):
    found = sorted(validator.iter_errors(document), key=lambda e: list(map(str, e.absolute_path)))
    return [f"/{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in found[:10]]


def main():
    program = sys.argv[1]
    captures = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    failed = 0
    for name, command in examples(captures):
        done = subprocess.run([program, *map(str, command), "--format", "json", "-q"], capture_output=True, check=False)
        if done.returncode not in (0, 1, 5):
            print(f"{name}: status {done.returncode}: {done.stderr.decode()[:300]}")
            failed += 1
            continue
        document = json.loads(done.stdout)
        validator = schema(name)
        list_of_faults = faults(validator, document)
        # A check that cannot fail says nothing: a member too many and one too few have to be seen.
        more, less = {**document, "not_there": 1}, copy.copy(document)
        del less["tool_version"]
        if not faults(validator, more) or not faults(validator, less):
            list_of_faults.append("a document with a member too many or too few passes")
        failed += bool(list_of_faults)
        print(f"{name} ({' '.join(pathlib.Path(str(c)).name for c in command[1:3])} ...): {'valid' if not list_of_faults else 'NOT VALID'}")
        for fault in list_of_faults:
            print(f"  {fault}")
    sys.exit(1 if failed else 0)


main()
