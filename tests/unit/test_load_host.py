"""What a load host does with an item and its token; processes are real, AWS is not."""

from __future__ import annotations

import json
import multiprocessing
import socket
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.loaders import Loader
from tests.samples.records import writer_item

from stepbench import load_host as host
from stepbench.load_host import LoadHost, Place

PROCESSES = multiprocessing.get_context("spawn")
"""The server that the host forks from would outlive its tests."""
TASK = {"item": writer_item(1).model_dump(mode="json"), "attempt": 0}


class StepFunctions:
    """It notes what it is told; a token that was given up is refused."""

    def __init__(self, *, gone: bool = False) -> None:
        self.gone = gone
        self.told: list[tuple[str, dict[str, str]]] = []

    def _tell(self, what: str, fields: dict[str, str]) -> None:
        if self.gone:
            raise ClientError({"Error": {"Code": "TaskTimedOut", "Message": "gone"}}, "SendTaskHeartbeat")
        self.told.append((what, fields))

    def send_task_heartbeat(self, **fields: str) -> None:
        """Note."""
        self._tell("heartbeat", fields)

    def send_task_success(self, **fields: str) -> None:
        """Note."""
        self._tell("success", fields)

    def send_task_failure(self, **fields: str) -> None:
        """Note."""
        self._tell("failure", fields)


class Function:
    """RunWriter's function, with a time-out; its variables lead to an address that never answers."""

    def __init__(self, timeout_s: float, endpoint: str) -> None:
        names = ("RESULTS_TABLE", "RESULTS_BUCKET", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        variables = {**dict.fromkeys(names, "any"), "AWS_ENDPOINT_URL": endpoint}
        self.answer = {"Timeout": timeout_s, "Environment": {"Variables": variables}}

    def get_function_configuration(self, **_: str) -> dict[str, Any]:
        """Return variables and time-out."""
        return self.answer


@pytest.fixture(autouse=True)
def _processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host, "PROCESSES", PROCESSES)
    yield
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


@pytest.fixture
def silence() -> Iterator[str]:
    """Return an endpoint that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def run(task: dict[str, Any], endpoint: str, states: StepFunctions, timeout_s: float = 900) -> None:
    """Let a load host run an item."""
    clients = {"lambda": Function(timeout_s, endpoint), "stepfunctions": states}
    place = Place("queue", "RunWriter", 1, "a test")
    LoadHost(place, clients.__getitem__, {})._run(json.dumps({"token": "t", "task": task}))


def failure(states: StepFunctions) -> tuple[str, str]:
    """Return the error that was told last, and its message."""
    what, fields = states.told[-1]
    assert what == "failure"
    return fields["error"], json.loads(fields["cause"])["errorMessage"]


def test_an_error_has_the_name_that_lambda_would_give_it(silence: str) -> None:
    """The machine's Retry and Catch match names of classes."""
    states = StepFunctions()
    run({"item": {}, "attempt": 0}, silence, states)
    error, message = failure(states)
    assert error == "ValidationError"
    assert "RunWriterInput" in message


def test_a_long_error_is_cut_to_what_step_functions_takes(silence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cause that is too long is refused, and the machine would hear of nothing but silence."""
    answer = {"errorType": "PlanError", "errorMessage": "\N{GRINNING FACE}" * 40_000}
    monkeypatch.setattr(LoadHost, "_answer", lambda *_: answer)
    states = StepFunctions()
    run(TASK, silence, states)
    error, message = failure(states)
    shapes = Loader().load_service_model("stepfunctions", "service-2")["shapes"]
    assert error == "PlanError"
    assert answer["errorMessage"].startswith(message)
    assert len(message) > 2_000
    assert len(states.told[-1][1]["cause"]) <= shapes["SensitiveCause"]["max"]


def test_a_process_that_dies_is_told_as_a_sandbox_that_does(silence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory, above all: the kernel says nothing to anybody."""
    states, beaten = StepFunctions(), threading.Event()
    monkeypatch.setattr(host, "BEAT_S", 0.1)
    monkeypatch.setattr(states, "send_task_heartbeat", lambda **_: beaten.set())
    runs = threading.Thread(target=run, args=(TASK, silence, states))
    runs.start()
    assert beaten.wait(30)
    while not (processes := PROCESSES.active_children()):
        assert runs.is_alive()
    processes[0].kill()
    runs.join(30)
    assert failure(states) == ("Runtime.ExitError", "the writer's process ended with exit code -9")


def test_a_process_has_the_time_that_the_function_would_have(silence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that hangs must not keep a place for ever; until then the machine hears that all is well."""
    states = StepFunctions()
    monkeypatch.setattr(host, "BEAT_S", 0.01)
    monkeypatch.setattr(host, "time", SimpleNamespace(monotonic=lambda: len(states.told)))  # a second for each beat
    run(TASK, silence, states, timeout_s=3)
    assert failure(states) == ("Sandbox.Timedout", "stopped after 3 s")
    assert [what for what, _ in states.told] == ["heartbeat"] * 4 + ["failure"]
    assert PROCESSES.active_children() == []


def test_what_was_given_up_is_not_run(silence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its successor may be at work already, and the two would offer the slice twice."""
    monkeypatch.setattr(LoadHost, "_answer", lambda *_: pytest.fail("it was run"))
    states = StepFunctions(gone=True)
    run(TASK, silence, states)
    assert states.told == []
