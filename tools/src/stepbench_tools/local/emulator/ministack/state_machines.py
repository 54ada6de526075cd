"""
MiniStack's Step Functions where it departs from AWS's documentation and a machine of ours depends on it.

**Executions** begin when they are started: MiniStack waits 0.15 s before each one's first state, which was most of a
small DAG's time. **Tasks that wait for a token**: each attempt has one of its own, and fails when nobody gives a sign
of life. **Inline Maps**: one that has failed begins no further iteration, MaxConcurrencyPath bounds it, and 40 at
once do; MiniStack runs all iterations whatever becomes of them, so that a DAG whose first level has failed went through
all the others, and as many at once as there are items.

`shim.py` loads this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextvars
import json
import threading
import time
from typing import Any

Json = dict[str, Any]
_POLL_S = 0.5


def await_signs_of_life(service: Any) -> None:
    """
    Let a task with HeartbeatSeconds fail as AWS does, from its start on; MiniStack notes heartbeats, and waits on.

    MiniStack gives all attempts of a task one token, so that who works on the first could answer for the second. And
    where the function that is given a token fails, it waits on for the answer; on AWS the task has failed then.
    """
    stock = service._invoke_with_callback
    call_lambda = service._call_lambda
    waiting: contextvars.ContextVar[str] = contextvars.ContextVar("waiting", default="")

    def call(*arguments: Any) -> Any:
        try:
            return call_lambda(*arguments)
        except service._ExecutionError as error:
            if found := service._task_tokens.get(waiting.get()):
                found["error"] = {"Error": error.error, "Cause": error.cause}
                found["event"].set()
            raise

    service._call_lambda = call

    def invoke(resource: str, data: Any, token: str, state: Json) -> Any:
        own = service.new_uuid()
        if "HeartbeatSeconds" in state:
            watch = (service._task_tokens, own, float(state["HeartbeatSeconds"]))
            context = contextvars.copy_context()  # account and region, by which MiniStack keeps tokens
            threading.Thread(target=context.run, args=(_watch, *watch), daemon=True, name="heartbeats").start()
        before = waiting.set(own)
        try:
            return stock(resource, json.loads(json.dumps(data).replace(token, own)), own, state)
        finally:
            waiting.reset(before)

    service._invoke_with_callback = invoke


def _watch(tokens: Any, token: str, limit_s: float) -> None:
    """End the wait for a token once its last heartbeat is too long ago; go when the wait has ended."""
    seen, beat, known = time.monotonic(), None, False
    while time.monotonic() - seen < limit_s:
        time.sleep(_POLL_S)
        found = tokens.get(token)
        if found is None:
            if known:
                return
            continue
        if not known or found["heartbeat"] != beat:
            seen, beat, known = time.monotonic(), found["heartbeat"], True
    if (found := tokens.get(token)) is not None and not found["event"].is_set():
        found["error"] = {"Error": "States.HeartbeatTimeout", "Cause": ""}
        found["event"].set()


BEFORE_FIRST_STATE_S = 0.15


class _Time:
    """The module `time`, but for that wait."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def sleep(self, seconds: float) -> None:
        """Sleep, except for exactly this time, which no Wait of ours has."""
        if seconds != BEFORE_FIRST_STATE_S:
            self._module.sleep(seconds)


def begin_at_once(service: Any) -> None:
    """Take the wait away."""
    service.time = _Time(service.time)


_STOPPED = "the Map has failed"
INLINE_ITERATIONS = 40
"""At once, of an inline Map, whatever its MaxConcurrency asks for (Step Functions Developer Guide, "Map")."""


def end_failed_maps(service: Any) -> None:
    """Patch it. An iteration that is not begun fails behind those that were, whose error the Map's is."""
    failed: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("failed", default=None)
    stock_map, stock_iteration = service._run_map_items, service._run_sub_machine

    def run_map(state: Json, raw_input: Any, execution: Json, context: Json) -> Any:
        if not _is_distributed(state):
            limit = state.get("MaxConcurrency", 0)
            if "MaxConcurrencyPath" in state:
                effective = service._apply_input_path(state, raw_input, context)
                limit = service._resolve_path_or_ctx(state["MaxConcurrencyPath"], effective, context)
            if not isinstance(limit, str):  # an expression of JSONata's, which no machine of ours has
                state = {**state, "MaxConcurrency": min(int(limit) or INLINE_ITERATIONS, INLINE_ITERATIONS)}
        token = failed.set(None if _is_distributed(state) else threading.Event())
        try:
            return stock_map(state, raw_input, execution, context)
        finally:
            failed.reset(token)

    def run_iteration(*given: Any) -> Any:
        of_map = failed.get()
        if of_map is None:
            return stock_iteration(*given)
        if of_map.is_set():
            raise service._ExecutionError(error="States.MapFailed", cause=_STOPPED)
        token = failed.set(None)
        try:
            return stock_iteration(*given)
        except Exception:
            of_map.set()
            raise
        finally:
            failed.reset(token)

    service._run_map_items, service._run_sub_machine = run_map, run_iteration


def _is_distributed(state: Json) -> bool:
    processor = state.get("ItemProcessor") or {}
    return bool((processor.get("ProcessorConfig") or {}).get("Mode") == "DISTRIBUTED")
