"""Tokens and signs of life of tasks that wait, on a stand-in for MiniStack's module."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from stepbench_tools.local.emulator.ministack import state_machines

LIMIT_S = 0.05
PATIENT_S = 1.0
"""Of a silence between signs that come fifty times as often."""
STOCK = "7f9a-stock"


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have silence noticed as soon as it has lasted."""
    monkeypatch.setattr(state_machines, "_POLL_S", LIMIT_S / 5)


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
    state_machines.await_signs_of_life(service)
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


def test_only_the_wait_before_the_first_state_is_left_out() -> None:
    """A Wait state's time has to pass; and whatever else the module `time` has, is still there."""
    slept: list[float] = []
    service = SimpleNamespace(time=SimpleNamespace(sleep=slept.append, monotonic=lambda: 7.0))
    state_machines.begin_at_once(service)
    for seconds in (state_machines.BEFORE_FIRST_STATE_S, 0.2, 1):
        service.time.sleep(seconds)
    assert (slept, service.time.monotonic()) == ([0.2, 1], 7.0)


class ExecutionError(Exception):
    """As MiniStack's: name and cause."""

    def __init__(self, error: str = "TaskFailedError", cause: str = "") -> None:
        super().__init__(error, cause)


def service(run: Any) -> Any:  # noqa: ANN401 -- a stand-in of MiniStack's module
    """Return a stand-in whose Maps run `items` in order, as MiniStack does: the first error counts, all are run."""

    def run_map(state: dict[str, Any], items: list[Any], execution: Any, context: Any) -> Any:  # noqa: ANN401
        def one(item: Any) -> Any:  # noqa: ANN401
            try:
                return made._run_sub_machine({}, "A", item, execution, context)
            except ExecutionError as error:
                return error

        with ThreadPoolExecutor(state.get("MaxConcurrency", 1)) as pool:
            ended = [pool.submit(contextvars.copy_context().run, one, item) for item in items]
        results = [each.result() for each in ended]
        for result in results:
            if isinstance(result, ExecutionError):
                raise result
        return results, state.get("MaxConcurrency")

    made = SimpleNamespace(
        _run_map_items=run_map,
        _run_sub_machine=lambda _states, _start, item, _execution, _context: run(item),
        _apply_input_path=lambda _state, given, _context: given,
        _resolve_path_or_ctx=lambda _path, _data, _context: 3,
        _ExecutionError=ExecutionError,
    )
    state_machines.end_failed_maps(made)
    return made


def test_nothing_begins_behind_a_failure_and_its_error_is_the_map_s() -> None:
    """A DAG's second level must not run on what the first has not written."""
    begun: list[int] = []

    def run(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise ExecutionError
        return item

    with pytest.raises(ExecutionError, match="TaskFailedError"):
        service(run)._run_map_items({"MaxConcurrency": 1}, [0, 1, 2, 3], {}, {})
    assert begun == [0, 1]


@pytest.mark.parametrize(("state", "at_once"), [({"MaxConcurrency": 100}, 40), ({}, 40), ({"MaxConcurrency": 5}, 5)])
def test_an_inline_map_runs_forty_at_once_at_most(state: dict[str, Any], at_once: int) -> None:
    """Step Functions bounds it, whatever is asked for; MiniStack runs all there are."""
    assert service(lambda item: item)._run_map_items(state, [0, 1], {}, {}) == ([0, 1], at_once)


def test_a_map_within_an_iteration_fails_by_itself_and_then_fails_the_one_around_it() -> None:
    """Levels hold Maps of tasks; of two levels the second is not begun, of two trials' executions the other is."""
    begun: list[Any] = []

    def run(item: Any) -> Any:  # noqa: ANN401 -- a level's tasks, or a task
        begun.append(item)
        if isinstance(item, list):
            return made._run_map_items({"MaxConcurrency": 1}, item, {}, {})
        if item == "bad":
            raise ExecutionError
        return item

    made = service(run)
    with pytest.raises(ExecutionError, match="TaskFailedError"):
        made._run_map_items({"MaxConcurrency": 1}, [["a"], ["bad", "b"], ["c"]], {}, {})
    assert begun == [["a"], "a", ["bad", "b"], "bad"]
    assert made._run_map_items({"MaxConcurrency": 1}, [["c"]], {}, {})[0]


def test_max_concurrency_path_bounds_an_inline_map() -> None:
    """MiniStack reads the literal field only, and would start a sandbox for each of forty tasks."""
    assert service(lambda item: item)._run_map_items({"MaxConcurrencyPath": "$.n"}, [1], {}, {}) == ([1], 3)
