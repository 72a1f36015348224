#!/usr/bin/env python3
"""Time `nsysnccl report` on a large report against a bare SQLite scan of the columns that it needs, in one run.

usage: benches/whole_process.py [--copies 330] [--runs 5] [--bin target/release/nsysnccl] [--report FILE]

Grows a shipped report (each copy shifted in time and in correlation ids) unless --report names a large one, then
runs scan and report in turn. Prints medians, the ratio of each pair, and the peak memory of the program.
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


def grow(source, target, copies):
    shutil.copyfile(source, target)
    os.chmod(target, 0o644)
    db = sqlite3.connect(target)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA journal_mode = OFF")
    columns = {t: [row[1] for row in db.execute(f"PRAGMA table_info({t})")] for t in EVENTS}
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


def report(binary, path, threads):
    start = time.perf_counter()
    child = subprocess.Popen([binary, "report", path, "--format", "json", "--threads", str(threads)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"report failed with status {status}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--copies", type=int, default=330)
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--bin", default=str(ROOT / "target/release/nsysnccl"))
    p.add_argument("--report")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = a.report
        if path is None:
            path = os.path.join(folder, "large_0.sqlite")
            grow(ROOT / "examples/shm/shm-2gpu-bf16-bucket100_0.sqlite", path, a.copies)
        scan(path)
        pairs = [(scan(path), *report(a.bin, path, a.threads)) for _ in range(a.runs)]
    scans, times, memory = zip(*pairs)
    ratios = sorted(t / s for s, t, _ in pairs)
    print(f"bare scan   median {statistics.median(scans):.2f} s")
    print(f"report      median {statistics.median(times):.2f} s, {a.threads} threads, peak memory {max(memory):.0f} MB")
    print(f"ratio       median {statistics.median(ratios):.2f} (of {a.runs} pairs: {ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
