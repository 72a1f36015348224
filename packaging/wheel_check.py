"""What the installed Python package returns is what its program prints; errors are exceptions. Run by wheel_check.sh."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import nsysnccl

shm = Path(sys.argv[1]) / "examples" / "shm"
one = str(shm / "shm-2gpu_[01].sqlite")
other = str(shm / "shm-2gpu-bf16-bucket100_[01].sqlite")


def printed(*arguments):
    return json.loads(subprocess.run([nsysnccl.program(), *arguments, "--format", "json", "-q"], capture_output=True, check=True).stdout)


def refused(status, word, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except nsysnccl.Error as error:
        assert error.status == status and word in str(error), (error.status, str(error))
    else:
        raise AssertionError(f"{word}: no error")


assert nsysnccl.program().startswith(sys.prefix), nsysnccl.program()

document = nsysnccl.report(one, nccl_log=[shm / "shm-2gpu.nccl.log"], topo=shm / "topo.txt", skip=1, keep_first=None)
assert document == printed("report", one, "--nccl-log", str(shm / "shm-2gpu.nccl.log"), "--topo", str(shm / "topo.txt"), "--skip", "1")
assert document["schema"] == "nsysnccl.report/1" and document["transport"]
assert nsysnccl.report([shm / "shm-2gpu_0.sqlite", shm / "shm-2gpu_1.sqlite"], no_replay=True)["summary"]["ranks"] == 2

slower = nsysnccl.compare({"bf16": other, "fp32": [one]}, baseline="bf16", gate=5)
assert slower["gate"]["failed"] == ["fp32"], slower["gate"]
assert slower == nsysnccl.compare([f"bf16={other}", f"fp32={one}"], baseline="bf16", gate=5)

assert nsysnccl.doctor(shm)["schema"] == "nsysnccl.doctor/1"
assert nsysnccl.inspect(shm / "shm-2gpu_inspector") == printed("inspect", str(shm / "shm-2gpu_inspector"))

refused(3, "nowhere.sqlite", nsysnccl.report, "nowhere.sqlite")
refused(2, "--no-such-option", nsysnccl.report, one, no_such_option=True)
refused(3, "--help", nsysnccl.report, "--help")
try:
    nsysnccl.report(one, format="csv")
except TypeError as error:
    assert "format" in str(error)
else:
    raise AssertionError("format: no error")

if importlib.util.find_spec("pandas"):
    steps = nsysnccl.frame(document)
    expected = [(r["rank"], s["index"], s["dtod"]["exposed_ns"]) for r in document["ranks"] for s in r["steps"]]
    assert list(steps[["rank", "index", "dtod.exposed_ns"]].itertuples(index=False, name=None)) == expected and expected
    assert nsysnccl.frame(one, skip=1)["step_ns"].tolist() == steps["step_ns"].tolist()
else:
    print("pandas is not installed: frame SKIPPED")
assert subprocess.run([sys.executable, "-m", "nsysnccl", "report", "nowhere.sqlite"], capture_output=True).returncode == 3
print(f"Python module: {nsysnccl.program()} and its JSON agree")
