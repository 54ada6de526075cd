"""Tokens and signs of life of tasks that wait, on a stand-in for MiniStack's module."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from typing import Any

import pytest

from stepbench_tools.local.emulator.ministack import callbacks

LIMIT_S = 0.05
PATIENT_S = 1.0
"""Of a silence between signs that come fifty times as often."""
STOCK = "7f9a-stock"


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have silence noticed as soon as it has lasted."""
    monkeypatch.setattr(callbacks, "_POLL_S", LIMIT_S / 5)


class Service:
    """It waits for a token's event, as MiniStack does, and for ever."""

    def __init__(self) -> None:
        self._task_tokens: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count()
        self.sent: list[Any] = []
        self.waiting = threading.Event()

    def new_uuid(self) -> str:
        """Return a name that is new."""
        return f"own-{next(self._numbers)}"

    class _ExecutionError(Exception):
        """A task failed: MiniStack's own."""

        def __init__(self, error: str, cause: str) -> None:
            super().__init__(error)
            self.error, self.cause = error, cause

    def _call_lambda(self, name: str) -> None:
        error = "TargetBusyError"
        raise self._ExecutionError(error, name)

    def _invoke_with_callback(self, _resource: str, data: Any, token: str, _state: Any) -> Any:  # noqa: ANN401 -- JSON
        info: dict[str, Any] = {"event": threading.Event(), "error": None, "heartbeat": None}
        self._task_tokens[token] = info
        self.sent.append(data)
        if data == {"function": "broken"}:
            with contextlib.suppress(self._ExecutionError):  # as MiniStack does, which waits on
                self._call_lambda("broken")
        self.waiting.set()
        assert info["event"].wait(30)
        return self._task_tokens.pop(token)["error"]


def patched() -> Any:  # noqa: ANN401 -- as a module
    """Return a service with the patch."""
    service = Service()
    callbacks.await_signs_of_life(service)
    return service


def test_silence_ends_the_wait_as_a_heartbeat_time_out() -> None:
    """That nobody took a task is known from the first second: the limit counts from the start."""
    error = patched()._invoke_with_callback("any", {"token": STOCK}, STOCK, {"HeartbeatSeconds": LIMIT_S})
    assert error == {"Error": "States.HeartbeatTimeout", "Cause": ""}


def test_each_attempt_has_a_token_of_its_own() -> None:
    """Who still works on the first must not be able to answer for the second."""
    service = patched()
    for _ in range(2):
        service._invoke_with_callback("any", {"body": {"token": STOCK}}, STOCK, {"HeartbeatSeconds": LIMIT_S})
    assert service.sent == [{"body": {"token": "own-0"}}, {"body": {"token": "own-1"}}]


def test_a_task_without_a_limit_waits_for_its_answer() -> None:
    """As in every other machine that waits for a token."""
    service = patched()
    answers: list[Any] = []
    waiting = threading.Thread(
        target=lambda: answers.append(service._invoke_with_callback("any", {}, STOCK, {})), daemon=True
    )
    waiting.start()
    assert service.waiting.wait(10)
    service._task_tokens["own-0"]["event"].set()
    waiting.join(10)
    assert answers == [None]


def test_a_function_that_fails_fails_its_task() -> None:
    """Nobody is left who would answer for the token; on AWS the state is retried, or caught."""
    error = patched()._invoke_with_callback("any", {"function": "broken"}, STOCK, {})
    assert error == {"Error": "TargetBusyError", "Cause": "broken"}


def test_signs_of_life_keep_a_task_that_lasts() -> None:
    """The limit is of silence, not of the whole: a slice of ten minutes says every ten seconds that it goes on."""
    service, beats = patched(), 100
    waiting = threading.Thread(target=_beat, args=(service, beats), daemon=True)
    waiting.start()
    error = service._invoke_with_callback("any", {}, STOCK, {"HeartbeatSeconds": PATIENT_S})
    waiting.join(PATIENT_S)
    assert error is None


def _beat(service: Service, beats: int) -> None:
    """Note signs of life for longer than the limit, and then the answer."""
    assert service.waiting.wait(30)
    token = service._task_tokens["own-0"]
    for number in range(beats):
        token["heartbeat"] = number
        time.sleep(2 * PATIENT_S / beats)
    token["event"].set()
