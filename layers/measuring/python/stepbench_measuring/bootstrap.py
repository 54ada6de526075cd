"""
The handler that Lambda's runtime is given in place of a function's own: it stamps t4, calls that, and stamps t5.

Lambda's runtime leaves frames of files of this name out of the tracebacks that it reports (it means its own), so that
an error is reported as without this layer. Python 3.9 and later, the standard library only.
"""

from __future__ import annotations

from time import time_ns

IMPORTED_NS = time_ns()
"""Before the function's own module is imported, which is a part of the sandbox's init."""

# ruff: noqa: E402
import contextlib
import os
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench_measuring.records import begin_line, common_fields, delivered, end_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench_measuring.table import ResultsTable

AHEAD_NS = 1_000_000_000
"""A sandbox that waited so long for its first invocation was made ahead: that is no cold start."""
STDOUT = 1
_RUNTIMES = ("awslambdaric.bootstrap", "bootstrap", "__main__")
"""Where the module is that loads handlers, by version of the runtime."""
RUNTIME: Any = next((module for module in map(sys.modules.get, _RUNTIMES) if hasattr(module, "_get_handler")), None)


def _load(name: str) -> Callable[[Any, Any], Any]:
    """
    Return the function's own handler, loaded by the runtime's own loader.

    Raises:
        Exception: as the runtime's own, which it reports as if it had loaded the handler itself.
    """
    if RUNTIME is None:
        module, _, attribute = name.rpartition(".")
        found: Callable[[Any, Any], Any] = getattr(import_module(module.replace("/", ".")), attribute)
        return found
    fault: Any = RUNTIME.FaultException
    try:
        found = RUNTIME._get_handler(name)  # noqa: SLF001 -- else its errors would be other ones
    except fault:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever the function's module raises is reported
        frames = traceback.extract_tb(error.__traceback__)
        while frames and "/bootstrap.py" in frames[0].filename:
            del frames[0]
        raise fault(type(error).__name__, str(error), traceback.format_list(frames)) from None
    return found


class Sandbox:
    """The memory of one sandbox between invocations; its name is made at the first, since snapshots are restored."""

    def __init__(self, imported_ns: int, ready_ns: int) -> None:
        self.name = ""
        self.ready_ns = ready_ns
        self.init_ns = ready_ns - imported_ns

    def begin(self, t4_ns: int) -> bool:
        """Begin an invocation; return whether it is a cold start: the first, for which the sandbox was made."""
        if self.name:
            return False
        self.name = os.urandom(6).hex()
        return t4_ns - self.ready_ns < AHEAD_NS or os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start"

    def fields(self, *, cold: bool) -> str:
        """Return what the first line says of it."""
        return f'"sandbox":"{self.name}","cold":{"true" if cold else "false"},"init_ns":{self.init_ns}'


class Invocation(NamedTuple):
    """What the lines after the handler need: what all have in common, the records, and the line before it."""

    common: str
    records: list[str]
    begun: bytes


TRIAL = os.environ.get("STEPBENCH_TRIAL", "")
IDENTITY = os.environ.get("STEPBENCH_IDENTITY", "")
HANDLER = os.environ.get("STEPBENCH_HANDLER", "")
PLACE = os.environ.get("STEPBENCH_RESULTS_TABLE", "")
os.environ["_HANDLER"] = HANDLER  # as the function would see it without this layer
MEASURED = _load(HANDLER)
SANDBOX = Sandbox(IMPORTED_NS, time_ns())
TABLE: ResultsTable | None = None
if PLACE:  # last, since it is no part of the function's own init
    with contextlib.suppress(Exception):  # else lines are written
        from stepbench_measuring.table import ResultsTable

        TABLE = ResultsTable(PLACE, TRIAL, os.environ)


def handler(event: Any, context: Any) -> Any:  # noqa: ANN401 -- whatever the function takes and returns
    """Stamp t4, call the function's own handler, stamp t5; nothing decorates this, since t4 has to come first."""
    t4_ns = time_ns()
    invocation = _begin(t4_ns, event, context)
    called_ns = time_ns()
    try:
        result = MEASURED(event, context)
    except BaseException as error:
        _end((called_ns, time_ns()), invocation, context, type(error).__name__, None)
        raise
    _end((called_ns, time_ns()), invocation, context, "", result)
    return result


def _begin(t4_ns: int, event: Any, context: Any) -> Invocation | None:  # noqa: ANN401 -- see handler
    """Write the first line, before the handler: one that never ends has it, too."""
    try:
        cold = SANDBOX.begin(t4_ns)
        source, records = delivered(event, IDENTITY)
        common = common_fields(TRIAL, context.aws_request_id, t4_ns)
        begun = begin_line(common, SANDBOX.fields(cold=cold), source, records)
        _write(begun)
        return Invocation(common, records, begun)
    except Exception:  # noqa: BLE001 -- whatever it is, the function's result stands
        return None


def _end(times: tuple[int, int], invocation: Invocation | None, context: Any, error: str, result: Any) -> None:  # noqa: ANN401 -- see handler
    """
    Put all lines into the results table where the trial asks for that; else write those that are left.

    times: when the handler was called, and t5.
    """
    with contextlib.suppress(Exception):  # see _begin
        if invocation is None:
            return
        lines = end_lines(invocation.common, times, error or _refused(result), result, invocation.records)
        with contextlib.suppress(Exception):  # whatever it is, the lines are written
            if TABLE is not None:
                limit_s = TABLE.limit_s(context.get_remaining_time_in_millis())
                if TABLE.put(times[1], context.aws_request_id, [invocation.begun, *lines], limit_s):
                    return
        for line in lines:
            _write(line)


def _refused(result: Any) -> str:  # noqa: ANN401 -- see handler
    """Return the type of the error that the runtime reports of a result which it cannot encode; "" of any other."""
    client = getattr(RUNTIME, "LambdaRuntimeClient", None)  # whose marshaller a function may have replaced
    if client is None or result is None or isinstance(result, (str, int)):
        return ""
    try:
        client.marshaller.marshal_response(result)
    except Exception as error:  # noqa: BLE001 -- of the runtime, or of the function's own classes
        return str(getattr(error, "exception_type", type(error).__name__))
    return ""


def _write(text: bytes) -> None:
    """Write to the process's own output: `print` may have been replaced by the function."""
    while text:
        text = text[os.write(STDOUT, text) :]
