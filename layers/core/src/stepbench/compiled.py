"""
Compiled libraries in layers that were built for another processor, or another Python, than the function runs on.

Nothing that is compiled can be imported then, contracts included, so that no stage could say what is wrong. pip writes
beside each library which interpreter and processor its wheel is for: that is the layers' mark. What is started by
itself imports this module before anything else, and Lambda's answer to whoever invoked it is then the explanation.
"""

from __future__ import annotations

import platform
import re
import sys
from importlib import import_module

LIBRARY = "pydantic-core"
"""What nearly every function imports first of all that is compiled."""
_PROCESSORS = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64", "amd64": "x86_64"}
"""AWS's names, by those of wheels and operating systems."""
_TAG = re.compile(r"^Tag: cp3(\d+)-\w+-\w+?_(x86_64|aarch64|arm64)$", re.MULTILINE)


def processor() -> str:
    """Return the processor of this machine by AWS's name, `x86_64` or `arm64`; another one by its own name."""
    machine = platform.machine().lower()
    return _PROCESSORS.get(machine, machine)


def explain_mismatch(wheel: str, here: tuple[int, str]) -> str:
    """
    Return what was built and what runs, with the command that mends it; empty where these are the same or not known.

    Args:
        wheel: the file WHEEL of a compiled library.
        here: the minor version of the Python that runs, and its processor by AWS's name.
    """
    built = {(int(minor), _PROCESSORS[machine]) for minor, machine in _TAG.findall(wheel)}
    if not built or here in built:
        return ""
    was, runs = (f"python3.{minor} on {machine}" for minor, machine in (min(built), here))
    parameters = f"PythonRuntime=python3.{here[0]} Architecture={here[1]}"
    return (
        f"the layers were built for {was}, and this function runs {runs}. "
        f"Build them for that: `sam build --parameter-overrides {parameters}`, then `sam deploy`"
    )


def _wheel() -> str:
    """Return the file WHEEL of the library, empty where there is none. The reader of metadata is loaded only here."""
    metadata = import_module("importlib.metadata")
    try:
        return str(metadata.distribution(LIBRARY).read_text("WHEEL") or "")
    except metadata.PackageNotFoundError:
        return ""


try:
    import_module(LIBRARY.replace("-", "_"))
except ImportError as error:
    if explanation := explain_mismatch(_wheel(), (sys.version_info.minor, processor())):
        raise ImportError(explanation) from error
    raise
