"""
Tasks of any shape, that compute for so long and pass on so many bytes: for studies of a store.

What is passed on is made from a seed and the object's own place, and the reader checks each byte of it.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from stepbench.dataflow.application import ApplicationError, TaskAnswer, TaskCall, number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.dataflow import Parameter
    from stepbench.dataflow.application import Value

OUTPUT_BYTES = 65_536
"""Of each object, where neither `output_bytes` nor `output_ratio` says otherwise."""
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


TASKS = {"work": work}
MAKERS = {"bytes": make_bytes}
PARAMETERS = {"work": ("compute", "compute_ms", "output_bytes", "output_ratio"), "bytes": ("input_bytes",)}


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
    if how not in {"cpu", "sleep"}:
        message = f'parameter compute is {how!r}, and has to be "cpu" or "sleep"'
        raise ApplicationError(message)
    if how == "sleep":
        time.sleep(seconds)
        return
    digest, step, until_s = hashlib.sha256(), bytes(_STEP_BYTES), time.thread_time() + seconds
    while time.thread_time() < until_s:
        digest.update(step)
