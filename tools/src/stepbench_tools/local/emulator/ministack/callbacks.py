"""
Tasks that wait for a token, as on AWS: each attempt has one of its own, and fails when nobody gives a sign of life.

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


def await_signs_of_life(service: Any) -> None:  # noqa: ANN401 -- the module `stepfunctions`
    """
    Let a task with HeartbeatSeconds fail as AWS does, from its start on; MiniStack notes heartbeats, and waits on.

    MiniStack gives all attempts of a task one token, so that who works on the first could answer for the second. And
    where the function that is given a token fails, it waits on for the answer; on AWS the task has failed then.
    """
    stock = service._invoke_with_callback  # noqa: SLF001 -- wrapped
    call_lambda = service._call_lambda  # noqa: SLF001 -- wrapped
    waiting: contextvars.ContextVar[str] = contextvars.ContextVar("waiting", default="")

    def call(*arguments: Any) -> Any:  # noqa: ANN401 -- as the original
        try:
            return call_lambda(*arguments)
        except service._ExecutionError as error:  # noqa: SLF001 -- MiniStack's, which nothing else raises
            if found := service._task_tokens.get(waiting.get()):  # noqa: SLF001 -- as above
                found["error"] = {"Error": error.error, "Cause": error.cause}
                found["event"].set()
            raise

    service._call_lambda = call  # noqa: SLF001 -- wrapped

    def invoke(resource: str, data: Any, token: str, state: Json) -> Any:  # noqa: ANN401 -- as the original
        own = service.new_uuid()
        if "HeartbeatSeconds" in state:
            watch = (service._task_tokens, own, float(state["HeartbeatSeconds"]))  # noqa: SLF001
            context = contextvars.copy_context()  # account and region, by which MiniStack keeps tokens
            threading.Thread(target=context.run, args=(_watch, *watch), daemon=True, name="heartbeats").start()
        before = waiting.set(own)
        try:
            return stock(resource, json.loads(json.dumps(data).replace(token, own)), own, state)
        finally:
            waiting.reset(before)

    service._invoke_with_callback = invoke  # noqa: SLF001


def _watch(tokens: Any, token: str, limit_s: float) -> None:  # noqa: ANN401 -- MiniStack's dictionary
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
