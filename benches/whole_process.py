#!/usr/bin/env python3
"""Time `nsysnccl report` on a large report against a bare SQLite scan of the columns that it needs, in one run.

usage: benches/whole_process.py [--copies 330] [--runs 7] [--bin target/release/nsysnccl] [--report FILE] [--replay]

Grows a shipped report (each copy shifted in time and in correlation ids) unless --report names a large one, then
runs in turn: the scan, `report` on one thread and on two, `doctor`, and `report` of eight files on one thread and on
two. Prints medians, the ratio of each pair, the peak memory of the program, and the machine's load.
Only Python's standard library is used.
"""
import argparse, os, pathlib, shutil, sqlite3, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVENTS = ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"]
SCANS = [
    'SELECT sum(start), sum("end"), sum(deviceId), sum(contextId), sum(streamId), sum(correlationId), sum(globalPid & 255), sum(shortName), '
    "sum(demangledName) FROM CUPTI_ACTIVITY_KIND_KERNEL",
    'SELECT sum(start), sum("end"), sum(deviceId), sum(contextId), sum(streamId), sum(correlationId), sum(globalPid & 255), sum(copyKind), sum(bytes) '
    "FROM CUPTI_ACTIVITY_KIND_MEMCPY",
    'SELECT sum(start), sum("end"), sum(deviceId), sum(contextId), sum(streamId), sum(correlationId), sum(globalPid & 255), sum(bytes) '
    "FROM CUPTI_ACTIVITY_KIND_MEMSET",
    "SELECT sum(start), sum(correlationId), sum(globalTid & 255) FROM CUPTI_ACTIVITY_KIND_RUNTIME",
    'SELECT sum(start), sum("end"), sum(globalTid & 255), sum(domainId), sum(length(text)), sum(textId), sum(eventType) FROM NVTX_EVENTS',
]


def grow(source, target, copies, rank=None):
    """Repeats the activity of a report; with `rank`, as another process, whose rank only the file's name says."""
    shutil.copyfile(source, target)
    os.chmod(target, 0o644)
    db = sqlite3.connect(target)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA journal_mode = OFF")
    columns = {t: [row[1] for row in db.execute(f"PRAGMA table_info({t})")] for t in EVENTS}
    if rank is not None:
        for table in EVENTS:
            for column in {"globalPid", "globalTid"} & set(columns[table]):
                db.execute(f"UPDATE {table} SET {column} = {column} + {rank << 24}")
        db.execute("DELETE FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT%'")
        db.execute("DELETE FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'")
    bounds = {t: db.execute(f'SELECT min(start), max("end"), max(rowid) FROM {t} WHERE start >= 0').fetchone() for t in EVENTS}
    span = max(b[1] for b in bounds.values()) - min(b[0] for b in bounds.values()) + 1_000_000
    ids = 1 + max(db.execute(f"SELECT max(correlationId) FROM {t}").fetchone()[0] for t in EVENTS if "correlationId" in columns[t])
    for table in EVENTS:
        only = " AND start >= 0 AND eventType IN (59, 60)" if table == "NVTX_EVENTS" else ""
        for k in range(1, copies):
            shift = {"start": k * span, "end": k * span, "correlationId": k * ids}
            values = ", ".join(f'"{c}" + {shift[c]}' if c in shift else f'"{c}"' for c in columns[table])
            db.execute(f"INSERT INTO {table} SELECT {values} FROM {table} WHERE rowid <= {bounds[table][2]}{only}")
    db.commit()
    counts = [db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in EVENTS]
    db.close()
    print(f"{os.path.getsize(target) / 1e6:.0f} MB: " + ", ".join(f"{n:,} {t.rsplit('_', 1)[1].lower()} rows" for n, t in zip(counts, EVENTS)))


def scan(path):
    start = time.perf_counter()
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for sql in SCANS:
        db.execute(sql).fetchone()
    db.close()
    return time.perf_counter() - start


def run(*command):
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{command[1]} failed with status {status}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def spread(values):
    ordered = sorted(values)
    return f"median {statistics.median(ordered):.2f} (of {len(ordered)}: {ordered[0]:.2f} to {ordered[-1]:.2f})"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--copies", type=int, default=330)
    p.add_argument("--runs", type=int, default=7)
    p.add_argument("--bin", default=str(ROOT / "target/release/nsysnccl"))
    p.add_argument("--report", help="a large report instead of one that is grown")
    p.add_argument("--replay", action="store_true", help="with the replay, which is left out otherwise")
    a = p.parse_args()
    options = ["--format", "json"] + ([] if a.replay else ["--no-replay"])

    def report(threads, *paths):
        return run(a.bin, "report", *paths, *options, "--threads", str(threads))

    with tempfile.TemporaryDirectory() as folder:
        path = a.report
        if path is None:
            path = os.path.join(folder, "large_0.sqlite")
            grow(ROOT / "examples/shm/shm-2gpu-bf16-bucket100_0.sqlite", path, a.copies)
        eight = [os.path.join(folder, f"eight_{rank}.sqlite") for rank in range(8)]
        for rank, file in enumerate(eight):
            grow(ROOT / "examples/shm/shm-2gpu-bf16-bucket100_0.sqlite", file, max(1, a.copies // 16), rank)
        scan(path)
        rounds = []
        for _ in range(a.runs):
            one = {"scan": (scan(path), 0), "one": report(1, path), "two": report(2, path)}
            one |= {"doctor": run(a.bin, "doctor", path)}
            one |= {"8 on one": report(1, *eight), "8 on two": report(2, *eight)}
            rounds.append(one)
    seconds = {name: [r[name][0] for r in rounds] for name in rounds[0]}
    for name, values in seconds.items():
        print(f"{name:9} {spread(values)} s, peak memory {max(r[name][1] for r in rounds):.0f} MiB")
    for name, above, below in [
        ("one thread / scan", "one", "scan"),
        ("two threads / scan", "two", "scan"),
        ("doctor / scan", "doctor", "scan"),
        ("8 files: one thread / two", "8 on one", "8 on two"),
    ]:
        print(f"{name:26} {spread([x / y for x, y in zip(seconds[above], seconds[below])])}")
    print(f"load of the machine, {os.cpu_count()} processors: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
