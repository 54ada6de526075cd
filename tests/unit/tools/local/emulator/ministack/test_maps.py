"""Inline Maps on a stand-in for MiniStack's module: what runs after a failure, and how many at once."""

from __future__ import annotations

import contextvars
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from stepbench_tools.local.emulator.ministack import maps


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
    maps.end_failed_maps(made)
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
