"""Numbers of nsysnccl in Python: each function runs the program of this package and returns its JSON document.

    import nsysnccl
    document = nsysnccl.report("ddp_*.sqlite", nccl_log=["nccl.0.log", "nccl.1.log"])
    steps = nsysnccl.frame(document)

Options are those of the command line, with `_` for `-`: `True` is an option without a value, a list is an option given several
times, `None` and `False` are left out. What a field means stands in docs/metrics.md.
"""

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping

__all__ = ["Error", "compare", "doctor", "frame", "inspect", "npkit", "program", "report"]

# The module asks for JSON and reads the result itself.
_TAKEN = {"format", "quiet", "verbose", "help", "color", "width", "full"}


class Error(RuntimeError):
    """The program did not do it: `str(error)` is its message, `error.status` its exit status (None: not found)."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def program():
    """The path of the program: that of this package, else the first on the PATH."""
    name = "nsysnccl.exe" if os.name == "nt" else "nsysnccl"
    for scheme in (sysconfig.get_default_scheme(), f"{os.name}_user"):
        path = os.path.join(sysconfig.get_path("scripts", scheme), name)
        if os.access(path, os.X_OK):
            return path
    path = shutil.which(name)
    if path is None:
        raise Error(f"{name} is neither beside this Python nor on the PATH: install the wheel again", None)
    return path


def report(paths, **options):
    """The report on one run: `nsysnccl report`."""
    return _run("report", _listed(paths), options)


def compare(variants, **options):
    """The comparison of variants: `nsysnccl compare`.

    `variants` maps names to one path, or to several; or it is what stands on the command line. A failed or inconclusive
    `gate` is no exception: `document["gate"]` has it.
    """
    if isinstance(variants, Mapping):
        arguments = [f"{name}={path}" for name, paths in variants.items() for path in _listed(paths)]
    else:
        arguments = _listed(variants)
    return _run("compare", arguments, options, done=(0, 1, 4, 5))


def doctor(paths, **options):
    """What is in files, and what is missing for a report: `nsysnccl doctor`."""
    return _run("doctor", _listed(paths), options)


def inspect(paths, **options):
    """Inspector logs alone: `nsysnccl inspect`."""
    return _run("inspect", _listed(paths), options)


def npkit(paths, **options):
    """NPKit dumps alone: `nsysnccl npkit`."""
    return _run("npkit", _listed(paths), options)


def frame(run, **options):
    """A pandas DataFrame with a row for each step of each rank.

    `run` is a document of `report`, or the paths of one with its options. Columns are `rank`, `report` and the fields of
    `ranks[].steps[]`; nested ones have dots (`dtod.exposed_ns`). What was not measured is missing.
    """
    import pandas

    if isinstance(run, Mapping):
        if options:
            raise TypeError("options belong to report(): this document is made already")
        document = run
    else:
        document = report(run, **options)
    rows = [
        {"rank": rank["rank"], "report": rank["report"], **step}
        for rank in document["ranks"]
        for step in rank["steps"]
    ]
    return pandas.json_normalize(rows)


def _listed(paths):
    one = isinstance(paths, (str, os.PathLike))
    return [os.fspath(path) for path in ([paths] if one else paths)]


def _arguments(options):
    for name, value in options.items():
        if name in _TAKEN:
            raise TypeError(f"{name} is not an option of this module: it reads JSON")
        flag = "--" + name.replace("_", "-")
        several = isinstance(value, (list, tuple))
        for one in value if several else [value]:
            if one is True:
                yield flag
            elif one is not None and one is not False:
                yield f"{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}"


def _run(command, paths, options, done=(0, 4)):
    arguments = [program(), command, "--format=json", "--quiet", *_arguments(options), "--", *paths]
    result = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace")
    # A command line that is not understood has status 2 and prints nothing, as errors do.
    if result.returncode not in done or not result.stdout:
        message = result.stderr.strip().removeprefix("error: ") or f"{command} ended with status {result.returncode}"
        raise Error(message, result.returncode)
    return json.loads(result.stdout)
