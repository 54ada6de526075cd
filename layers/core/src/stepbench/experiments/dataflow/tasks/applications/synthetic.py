"""
Tasks of any shape, that compute for so long and pass on so many bytes: for studies of a store.

What is passed on is made from a seed and the object's own place, and the reader checks each byte of it.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES, MAX_TIMEOUT_S
from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall, number_of
from stepbench.experiments.dataflow.tasks.application_parameters import Choice, Fault, Given, Number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.contracts.dataflow.dag import Parameter
    from stepbench.experiments.dataflow.tasks.application import Value

OUTPUT_BYTES = 65_536
"""The size of an object unless `output_bytes` or `output_ratio` sets it."""
_LARGEST_BYTES = MAX_OBJECT_BYTES - 1_024
"""The largest body: the rest of an object is for its name and its header."""
_BLOCK_BYTES = 2**20
"""A body is one block after the other, as long as it has to be: no store's compression sees so far."""
_STEP_BYTES = 65_536
"""Computing looks at its time after each digest of so much: some 60 µs."""


def work(call: TaskCall) -> TaskAnswer:
    """
    Check what has come, compute, and make what goes on.

    Parameters: `output_bytes` of each object, or `output_ratio`, all of them together to all that has come;
    `compute_ms`, spent as `compute` says: `cpu` (SHA-256 over what a processor takes so long for; the default) or
    `sleep`.
    """
    bodies = [_checked(value) for values in call.inputs.values() for value in values]
    read_bytes = sum(map(len, bodies)) + len(call.dag_input or b"")
    _compute(call)
    size = _output_bytes(call, read_bytes)
    outputs = {
        consumer: [_object(call, f"{call.stage}-{call.task}/{consumer}-{part}", size) for part in range(parts)]
        for consumer, parts in call.parts.items()
    }
    return TaskAnswer(outputs, {"objects": len(bodies), "checked_bytes": sum(map(len, bodies)), "right": True})


def make_bytes(parameters: Mapping[str, Parameter], seed: int) -> bytes:
    """Return `input_bytes` (65,536) bytes of the seed."""
    return body_of(f"{seed}/input", int(number_of(parameters, "input_bytes", OUTPUT_BYTES)))


def check_work(given: Given) -> Iterator[Fault]:
    """Yield what each parameter of `work` may be by itself, and not here."""
    parameters = given.parameters
    if "output_ratio" in parameters and "output_bytes" in parameters:
        yield Fault("output_ratio", "is given together with output_bytes", "Remove one of the two.")
    if "output_ratio" in parameters and not given.has_input:
        message = "is a share of what the stage reads, which is nothing"
        yield Fault("output_ratio", message, "Use output_bytes, or give the DAG an input.")
    if number_of(parameters, "compute_ms", 0) > given.timeout_s * 1e3:
        message = f"is more than timeout_s allows, {given.timeout_s:g} s"
        yield Fault("compute_ms", message, "Lower it, or raise the stage's timeout_s.")


TASKS = {"work": work}
MAKERS = {"bytes": make_bytes}
PARAMETERS = {
    "work": {
        "compute": Choice(("cpu", "sleep")),
        "compute_ms": Number(0, MAX_TIMEOUT_S * 1_000),
        "output_bytes": Number(0, _LARGEST_BYTES, whole=True),
        "output_ratio": Number(0),
    },
    "bytes": {"input_bytes": Number(0, 512 * 2**20, whole=True)},
}
CHECKS = {"work": check_work}


def body_of(name: str, size: int) -> bytes:
    """Return so many bytes that are a name's own."""
    block = hashlib.shake_128(name.encode()).digest(min(size, _BLOCK_BYTES))
    return (block * -(-size // _BLOCK_BYTES))[:size] if block else b""


def _object(call: TaskCall, name: str, size: int) -> Value:
    name = f"{call.seed}/{name}"
    return {"name": name, "body": body_of(name, size)}


def _checked(value: Value) -> memoryview:
    body = memoryview(value["body"])
    if body != body_of(value["name"], len(body)):
        message = f"object {value['name']} has other bytes than were made"
        raise ApplicationError(message)
    return body


def _output_bytes(call: TaskCall, read_bytes: int) -> int:
    parts = sum(call.parts.values())
    if "output_ratio" in call.parameters and parts:
        return int(read_bytes * call.number("output_ratio", 1) / parts)
    return int(call.number("output_bytes", OUTPUT_BYTES))


def _compute(call: TaskCall) -> None:
    seconds, how = call.number("compute_ms", 0) / 1e3, call.parameters.get("compute", "cpu")
    if how == "sleep":
        time.sleep(seconds)
        return
    digest, step, until_s = hashlib.sha256(), bytes(_STEP_BYTES), time.thread_time() + seconds
    while time.thread_time() < until_s:
        digest.update(step)
