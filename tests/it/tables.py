"""Holds the tables of a report, read by DuckDB, against its JSON and docs/parquet.md; status 77 without DuckDB.

usage: tables.py FOLDER REPORT.json docs/parquet.md
"""
import json, re, sys
try:
    import duckdb
except ImportError:
    sys.exit(77)
folder, report, about = sys.argv[1], json.load(open(sys.argv[2])), open(sys.argv[3]).read()
sql = lambda text: duckdb.sql(re.sub(r"\{(\w+)\}", lambda m: f"'{folder}/{m[1]}.parquet'", text)).fetchall()
# Columns and types are those described.
types = {"BYTE_ARRAY": "VARCHAR", "STRING": "VARCHAR", "INT64": "BIGINT", "INTEGER(64,false)": "UBIGINT", "INT32": "INTEGER", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOLEAN"}
for table, rest in re.findall(r"## (\w+)\.parquet\n(.*?)(?=\n## |\Z)", about, re.S):
    described = [(name, types[kind]) for name, kind in re.findall(r"^\| `(\w+)` \| ([\w(),]+) \|", rest, re.M)]
    there = [row[:2] for row in sql("DESCRIBE SELECT * FROM {%s}" % table)]
    assert there == described and there, (table, set(there) ^ set(described))
# Steps: each number of each step.
numbers = 0
columns = [row[0] for row in sql("DESCRIBE SELECT * FROM {steps}")]
rows = {(row[0], row[1]): dict(zip(columns, row)) for row in sql("SELECT * FROM {steps} WHERE step IS NOT NULL")}
def flat(step, before=""):
    for name, value in step.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}_")
        else:
            yield before + name, value
for rank in report["ranks"]:
    for step in rank["steps"]:
        row = rows[rank["rank"], step["run_step"]]
        for name, value in flat(step):
            if name in row and name != "step":
                assert row[name] == value, (name, row[name], value)
                numbers += 1
assert numbers > 400, numbers
# Operations inside of steps, counted and added up, are the numbers of the steps.
query = """SELECT rank, step, sum(copied_bytes) FILTER (class = 'dtod'), count(*) FILTER (class = 'dtod'), count(*) FILTER (class IN ('communication', 'ptop'))
    FROM {operations} WHERE step IS NOT NULL GROUP BY ALL"""
counted = sql(query)
assert len(counted) == len(rows)
for rank, step, size, copies, comm in counted:
    row = rows[rank, step]
    assert (size or 0, copies, comm) == (row["dtod_bytes"], row["dtod_count"], row["comm_count"]), (rank, step)
# Time with a compute kernel, by SQL: islands of overlapping intervals.
query = """WITH o AS (SELECT rank, step, own_start_ns AS a, own_start_ns + duration_ns AS b FROM {operations} WHERE class = 'compute' AND step IS NOT NULL),
    g AS (SELECT *, max(b) OVER (PARTITION BY rank, step ORDER BY a, b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM o)
    SELECT rank, step, sum(greatest(0, b - greatest(a, coalesce(before, a)))) FROM g GROUP BY ALL"""
for rank, step, ns in sql(query):
    assert ns == rows[rank, step]["compute_ns"], (rank, step, ns)
# One collective a step: no two waits at once, so that they add up.
waits = {(row["rank"], row["step"]): row["wait_ns"] for row in report["waits"]}
found = {(rank, step): ns for rank, step, ns in sql("SELECT rank, step, sum(wait_ns) FROM {waits} WHERE step IS NOT NULL GROUP BY ALL")}
assert found == waits and waits, (found, waits)
groups = {(g["op"], g["bytes"]): (g["count"], g["transfer_ns"]) for g in report["collectives"]}
found = {(op, size): (n, int(ns)) for op, size, n, ns in sql("SELECT operation, bytes, count(*), median(transfer_ns) FROM {collectives} GROUP BY ALL")}
assert found == groups, (found, groups)
same = sql("SELECT count(*) FROM {collectives} c WHERE transfer_ns + (SELECT max(wait_ns) FROM {waits} w WHERE w.collective = c.collective) <> (SELECT max(duration_ns) FROM {waits} w WHERE w.collective = c.collective)")
assert same == [(0,)], same
assert [row[0] for row in sql("SELECT id FROM {findings} ORDER BY position")] == [f["id"] for f in report["findings"]]
assert json.loads(sql("SELECT evidence FROM {findings} ORDER BY position")[0][0]) == report["findings"][0]["evidence"]
try:
    import pandas
    steps = pandas.read_parquet(f"{folder}/steps.parquet")
    medians = steps[steps.counted].groupby("rank").step_ns.median()
    assert all(medians[r["rank"]] == r["summary"]["step_ns"]["median"] for r in report["ranks"]), medians
    print("pandas too")
except ImportError as e:
    print(f"pandas not looked at: {e}")
