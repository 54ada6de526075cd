"""The function of the transfers, changed: what its next invocation runs in, and what becomes of one under way."""

from __future__ import annotations

import io
import json
import socket
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.contracts.plan import TrialRef
from stepbench.contracts.transfer.rows import RefreshSandboxesInput
from stepbench.stages.refresh_sandboxes import FUNCTION, VARIABLE, refresh_sandboxes

if TYPE_CHECKING:
    from stepbench.services import Services

pytestmark = pytest.mark.emulator

SOURCE = """
import os, socket
SERVED = []
def handler(event, context):
    SERVED.append(event)
    if event:
        with socket.create_connection(("127.0.0.1", event)) as held:
            held.recv(1)
    return {"pid": os.getpid(), "served": len(SERVED), "kept": os.environ["KEPT"], "seen": os.environ.get("REFRESHED")}
"""


@pytest.fixture
def function(services: Services) -> str:
    """Return the name of a function in RunTransfer's place, which waits at a port, if it is told one."""
    name = f"{services.settings.function_prefix}-{FUNCTION}"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("module.py", SOURCE)
    client = services.aws("lambda")
    client.create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role="arn:aws:iam::000000000000:role/any",
        Handler="module.handler",
        Timeout=30,
        Code={"ZipFile": archive.getvalue()},
        Environment={"Variables": {"KEPT": "kept"}},
    )
    client.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 0.1})
    return name


def _call(services: Services, name: str, event: int = 0) -> Any:  # noqa: ANN401 -- JSON
    answer = services.aws("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
    assert "FunctionError" not in answer
    return json.loads(answer["Payload"].read())


def _refresh(services: Services, number: int = 0) -> str:
    task = RefreshSandboxesInput(ref=TrialRef(run_id="run", trial=0, tag="tag"), number=number)
    return refresh_sandboxes(task, services).changed_to


def test_the_next_invocation_has_a_new_sandbox(services: Services, function: str) -> None:
    """Without a change the second invocation is a warm one; after it, the third is the first of its process."""
    first, warm = _call(services, function), _call(services, function)
    assert (warm["pid"], warm["served"]) == (first["pid"], 2)
    changed_to = _refresh(services)
    cold = _call(services, function)
    assert cold["pid"] != first["pid"]
    assert cold == {"pid": cold["pid"], "served": 1, "kept": "kept", "seen": changed_to}


def test_an_invocation_under_way_goes_on(services: Services, function: str) -> None:
    """Transfers side by side each have the function changed; on AWS that ends none of them."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(30)
        held = pool.submit(_call, services, function, server.getsockname()[1])
        with server.accept()[0] as connection:
            _refresh(services)
            other = _call(services, function)
            connection.sendall(b"x")
        answer = held.result(30)
    assert (answer["served"], other["served"]) == (1, 1)
    assert answer["pid"] != other["pid"]
    assert _call(services, function)["pid"] == other["pid"]


def test_changes_side_by_side_all_take_effect(services: Services, function: str) -> None:
    """Lambda takes one at a time; who sees another's change, made after it was called, has what it wanted."""
    with ThreadPoolExecutor(3) as pool:
        values = list(pool.map(lambda number: _refresh(services, number), range(3)))
    found = services.aws("lambda").get_function_configuration(FunctionName=function)["Environment"]["Variables"]
    assert all(values)
    assert (found["KEPT"], found[VARIABLE] in values) == ("kept", True)
