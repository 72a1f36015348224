#!/usr/bin/env python3
"""Checks nsysnccl against the step times that train.py measured with CUDA events.

usage: verify.py EVENTS.json... [--report REPORT.json]... [--compare VARIANTS.json]

EVENTS are the files NAME_RANK.events.json of train.py, REPORT what `nsysnccl report --format json` wrote about the same captures
and VARIANTS what `nsysnccl compare --format json` wrote. A step time may differ from its events by 0.05 %, that of the first captured
step, while the profiler is still starting, by 0.5 %. Where the host was interrupted between a step's first operation and its event, the
event may be late. That excuses a step only if all of this fits: launching that operation and recording the event took the host more than
half as long again as it usually does; the difference is not greater than what it took longer; the step that ends with a late event is
too long by the events, the one that begins with it too short; and the two together are right. The line says so. Each variant's speedup must follow from the events to 0.1 % and its verdict must agree with it. Without a report
the events themselves are printed, as a Markdown table. Exit status 1 if a check fails.
"""
import argparse
import json
import pathlib
import statistics
import sys

TOLERANCE, FIRST_TOLERANCE, SPEEDUP_TOLERANCE, MIN_EFFECT, LATE = 0.0005, 0.005, 0.001, 0.01, 1.5


def key(path):
    """NAME_RANK of NAME_RANK.events.json or NAME_RANK.sqlite."""
    return pathlib.PurePath(path).name.removesuffix(".events.json").removesuffix(".sqlite")


def run_steps(ranks):
    """Step times of a run in ms: a step lasts as long as it does on the slowest rank."""
    return [max(times) for times in zip(*(r["step_ms"] for r in ranks))]


def median(steps):
    """Median as nsysnccl has it: the first step is left out if it lies over 5 % and 5 scaled deviations from the median of all."""
    middle = statistics.median(steps)
    far = abs(steps[0] - middle)
    deviation = 1.4826 * statistics.median(abs(s - middle) for s in steps)
    return statistics.median(steps[1:] if len(steps) >= 3 and far > 0.05 * middle and far > 5 * deviation else steps)


def late_events(off, truth):
    """Indices of the steps whose difference comes from a late event. off: (difference ms, true ms) a step."""
    late = truth.get("late_ms", [])
    usual = statistics.median(late) if late else 0.0
    excused = set()
    for i, ms in enumerate(late[1:len(off)], 1):
        (before, before_ms), (after, after_ms) = off[i - 1], off[i]
        together = abs(before + after) <= TOLERANCE * (before_ms + after_ms) if i > 1 else True
        if ms > LATE * usual and before < 0 < after <= ms - usual + TOLERANCE * after_ms and together:
            excused |= {i - 1, i}
    return excused


def check_report(document, events):
    """One line (ok, text) a rank: its step times against its events."""
    for rank in document["ranks"]:
        name = key(rank["report"])
        truth = events.get(name)
        if truth is None:
            yield False, f"{name}: no file {name}.events.json was given"
            continue
        if rank["pid"] != truth["pid"]:
            yield False, f"{name}: the report is of process {rank['pid']}, the events are of {truth['pid']}: not the same run"
            continue
        found = {s["name"]: s["step_ns"] for s in rank["steps"]}
        missing = [s for s in truth["steps"] if found.get(s) is None]
        if missing:
            yield False, f"{name}: no time for {', '.join(missing)}"
            continue
        off = [(found[s] / 1e6 - ms, ms, s) for s, ms in zip(truth["steps"], truth["step_ms"])]
        first_ms, first_of, _ = off[0]
        worst_ms, worst_of, worst = max(off[1:], key=lambda o: abs(o[0] / o[1]), default=(0.0, 1.0, "none"))
        beyond = [i for i, (difference, ms, _) in enumerate(off) if abs(difference) > (TOLERANCE if i else FIRST_TOLERANCE) * ms]
        late = late_events([o[:2] for o in off], truth)
        good = all(i in late for i in beyond)
        excused = [off[i][2] for i in beyond]
        yield good, (f"{name}: {len(off)} steps, worst {100 * worst_ms / worst_of:+.4f} % ({worst_ms:+.4f} ms, {worst}), "
                     f"first {100 * first_ms / first_of:+.4f} % ({first_ms:+.4f} ms)"
                     + (f"; late event at {', '.join(excused)}" if good and excused else ""))


def check_comparison(document, events):
    """One line (ok, text) a variant: its speedup and verdict against the events."""
    medians = {}
    for variant in document["variants"]:
        captures = [[events.get(key(r)) for r in c["reports"]] for c in variant["captures"]]
        if any(None in ranks for ranks in captures):
            yield False, f"{variant['name']}: events of some of its reports were not given"
        else:
            medians[variant["name"]] = statistics.mean(median(run_steps(ranks)) for ranks in captures)
    baseline = medians.get(document["baseline"])
    for variant in document["variants"]:
        name, verdict = variant["name"], variant["verdict"]
        if name == document["baseline"] or name not in medians or baseline is None:
            continue
        by_events = baseline / medians[name]
        agrees = {"faster": by_events > 1 + MIN_EFFECT, "slower": by_events < 1 / (1 + MIN_EFFECT),
                  "same": 1 / (1 + MIN_EFFECT) <= by_events <= 1 + MIN_EFFECT}.get(verdict, True)
        speedup = variant["speedup"]
        if speedup is None:
            yield False, f"{name}: no speedup, by the events {by_events:.4f}"
            continue
        good = agrees and abs(speedup / by_events - 1) <= SPEEDUP_TOLERANCE
        yield good, f"{name}: {verdict}, speedup {speedup:.4f}, by the events {by_events:.4f}"


def table(events):
    """The events alone, a row a capture."""
    captures = {}
    for name, line in sorted(events.items()):
        captures.setdefault(name.rpartition("_")[0], []).append(line)
    yield "| capture | ranks | steps | step ms, median | min | max | first step ms |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, ranks in sorted(captures.items()):
        steps = run_steps(ranks)
        later = steps[1:] or steps
        yield f"| {name} | {len(ranks)} | {len(steps)} | {median(steps):.3f} | {min(later):.3f} | {max(later):.3f} | {steps[0]:.3f} |"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("events", nargs="+", metavar="EVENTS.json")
    p.add_argument("--report", action="append", default=[], metavar="REPORT.json")
    p.add_argument("--compare", action="append", default=[], metavar="VARIANTS.json")
    a = p.parse_intermixed_args()
    events = {key(f): json.loads(pathlib.Path(f).read_text()) for f in a.events}
    if not a.report and not a.compare:
        print("\n".join(table(events)))
        return 0
    lines = [line for f in a.report for line in check_report(json.loads(pathlib.Path(f).read_text()), events)]
    lines += [line for f in a.compare for line in check_comparison(json.loads(pathlib.Path(f).read_text()), events)]
    for good, text in lines:
        print(f"{'ok  ' if good else 'FAIL'}  {text}")
    bad = sum(not good for good, _ in lines)
    print(f"{len(lines)} checks, {bad} failed")
    return 1 if bad or not lines else 0


if __name__ == "__main__":
    sys.exit(main())
