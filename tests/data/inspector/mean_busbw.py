#!/usr/bin/env python3
"""Mean bus bandwidth of every operation in the logs of this folder, by the definitions of NVIDIA's performance summary exporter
(perf_summary_exporter.py): GROUP BY id, coll_sn, coll_msg_size_bytes; AVG(coll_busbw_gbs); COUNT(*), for the four collectives
that it knows. Sizes of 2^64 - n, on which it fails, are left out.

usage: mean_busbw.py > mean_busbw.tsv
"""
import collections, gzip, json, pathlib

HERE = pathlib.Path(__file__).resolve().parent
KNOWN = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast"}

print("folder\tid\tclass\tcoll\tsn\tbytes\tlogs\tmean_busbw_gbs")
for folder in sorted(p for p in HERE.iterdir() if p.is_dir()):
    groups, kinds = collections.defaultdict(list), {}
    for log in sorted(folder.glob("*.log.gz")):
        for line in gzip.open(log, "rt"):
            record = json.loads(line)
            coll, header = record.get("coll_perf"), record["header"]
            if coll is None or coll["coll"] not in KNOWN or coll["coll_msg_size_bytes"] >= 1 << 63: continue
            n, nodes = header["n_ranks"], header["nnodes"]
            kinds[header["id"]] = "single-rank" if n == 1 else "nvlink-only" if nodes == 1 else "hca-only" if n == nodes else "mixed"
            groups[header["id"], coll["coll"], coll["coll_sn"], coll["coll_msg_size_bytes"]].append(coll["coll_busbw_gbs"])
    for (comm, coll, sn, size), values in sorted(groups.items()):
        print(folder.name, comm, kinds[comm], coll, sn, size, len(values), f"{sum(values) / len(values):.9f}", sep="\t")
