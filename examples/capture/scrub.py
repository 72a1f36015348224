#!/usr/bin/env python3
"""Copies an nsys SQLite export without what it tells about its machine and user, for a bug report or as an example.

usage: scrub.py FROM.sqlite TO.sqlite

A report holds the whole environment of the profiled program (passwords and tokens included), its output, paths, and the names of all
processes of the machine. The copy keeps the events of the profiled processes, the hardware, the capture's settings and, of the
environment, variables of NCCL and of the launcher only. Paths become file names, the host's name becomes "host". Names of kernels and
NVTX ranges stay: look at those yourself.
"""
import pathlib
import re
import sqlite3
import sys

KEPT_VARIABLE = re.compile(r"((TORCH_)?NCCL_(?!.*(DIR|FILE|PLUGIN|CONF))|CUDA_VISIBLE_DEVICES|(LOCAL_|GROUP_|)(RANK|WORLD_SIZE)|SLURM_PROCID|OMPI_COMM_WORLD_RANK|PMIX?_RANK)\w*\Z")
KEPT_SYSTEM = ("NvDriverVersion", "CudaDriverVersion", "KernelVersion", "OsDescription", "HardwarePlatform", "Hostname")
# Columns that hold a StringIds id, beside those whose name ends in nameId or textId.
STRING_COLUMNS = {"demangledName", "shortName", "mangledName", "name", "nameId", "textId", "jsonTextId"}


def without_folders(value):
    return re.sub(r"(?:/[^/\s\"]+)*/([^/\s\"]*)", r"\1", value)


def scrub(db):
    tables = {t: [c[1] for c in db.execute(f'PRAGMA table_info("{t}")')] for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}

    def drop(table, where="1"):
        if table in tables:
            db.execute(f"DELETE FROM {table} WHERE {where}")

    # Processes that ran something on a GPU, as nsys numbers them: the bits above the thread id.
    events = [f"SELECT globalPid >> 24 FROM {t}" for t in tables if t.startswith("CUPTI_ACTIVITY_KIND_") and "globalPid" in tables[t]]
    db.execute("CREATE TEMP TABLE kept AS " + " UNION ".join(events))
    drop("PROCESSES", "globalPid >> 24 NOT IN (SELECT * FROM kept)")
    drop("ThreadNames", "globalTid >> 24 NOT IN (SELECT * FROM kept)")
    for table in ("ProcessStreams", "ANALYSIS_FILE", "OSRT_API", "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS"):
        drop(table)

    drop("TARGET_INFO_SYSTEM_ENV", "name NOT IN (" + ", ".join(f"'{n}'" for n in KEPT_SYSTEM) + ")")
    if "TARGET_INFO_SYSTEM_ENV" in tables:
        db.execute("UPDATE TARGET_INFO_SYSTEM_ENV SET value = 'host' WHERE name = 'Hostname'")
    for table in ("META_DATA_CAPTURE", "META_DATA_EXPORT", "EXPORT_META_DATA"):
        for row, name, value in db.execute(f"SELECT rowid, name, value FROM {table}").fetchall() if table in tables else ():
            variable, _, _ = (value or "").partition("=")
            if name.endswith("ENVIRONMENT_VARIABLE") and not KEPT_VARIABLE.match(variable) or re.search("WORKING_DIR|USER|PATH", name):
                db.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
            elif name.endswith("HOST") or name == "DEVICE_DISPLAY_NAME":
                db.execute(f"UPDATE {table} SET value = 'host' WHERE rowid = ?", (row,))
            elif value and "/" in value:
                db.execute(f"UPDATE {table} SET value = ? WHERE rowid = ?", (without_folders(value), row))
    for row, text in db.execute("SELECT rowid, text FROM DIAGNOSTIC_EVENT").fetchall() if "DIAGNOSTIC_EVENT" in tables else ():
        db.execute("UPDATE DIAGNOSTIC_EVENT SET text = ? WHERE rowid = ?", (without_folders(text or ""), row))

    used = [f'SELECT "{c}" AS id FROM "{t}"' for t, columns in tables.items() if not t.startswith(("ENUM_", "META_", "TARGET_INFO_SYSTEM"))
            for c in columns if c in STRING_COLUMNS or c.endswith(("NameId", "TextId"))]
    drop("StringIds", f"id NOT IN (SELECT id FROM ({' UNION '.join(used)}) WHERE typeof(id) = 'integer')")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    if target.exists():
        sys.exit(f"scrub.py: {target} is there already")
    with sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True) as db, sqlite3.connect(target) as copy:
        db.backup(copy)
    copy.execute("PRAGMA secure_delete = ON")
    scrub(copy)
    copy.commit()
    copy.execute("VACUUM")
    copy.close()


if __name__ == "__main__":
    main()
