"""
Permissions as AWS judges them: a role may do what its policies allow, and each decision is written down.

Loaded by the shim, by path, so it imports nothing of ours. The emulator judges with AUTH=true only, and does not see a
mapping's function, which is added here. One JSON line for each call that is unlike those before: role, session (a
function's name), action, resource, region, what its conditions may look at, and the decision.
"""

from __future__ import annotations

import contextvars
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_OWN: contextvars.ContextVar[bool] = contextvars.ContextVar("of the caller's own policies", default=False)
_ASSUMED = ":assumed-role/"
FUNCTION = "lambda:functionarn"


def record_decisions(evaluator: Any, path: Path) -> None:  # noqa: ANN401 -- the module `iam_evaluator`
    """Have each decision on a role's own policies written to a file, once."""
    enforce, evaluate, write = evaluator.enforce, evaluator.evaluate, _writer(path)

    def enforce_marked(access_key: str, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 -- as the original
        if evaluator.is_root_access_key(access_key):  # also unsigned: PostgreSQL's stand-in has no role
            return None
        token = _OWN.set(True)
        try:
            return enforce(access_key, *arguments, **named)
        finally:
            _OWN.reset(token)

    def evaluate_recorded(context: Any, *policies: Any) -> Any:  # noqa: ANN401 -- as the original
        result = evaluate(context, *policies)
        if _OWN.get() and _ASSUMED in context.principal_arn:
            _OWN.set(False)  # what follows are resources' policies
            write(_line(context, result.decision))
        return result

    evaluator.enforce, evaluator.evaluate = enforce_marked, evaluate_recorded


def supply_condition_keys(actions: Any) -> None:  # noqa: ANN401 -- the module `iam_actions`
    """Have conditions see the function of a new event source mapping, as AWS documents it."""
    from_body = actions.request_tag_context

    def context_from_body(of: str, action: str, body: bytes, params: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = from_body(of, action, body, params)
        if action == "lambda:CreateEventSourceMapping":
            return {**found, FUNCTION: json.loads(body)["FunctionName"]}
        return found

    actions.request_tag_context = context_from_body


def _line(context: Any, decision: str) -> str:  # noqa: ANN401 -- MiniStack's EvalContext
    role, _, session = context.principal_arn.partition(_ASSUMED)[2].partition("/")
    fields = {
        "role": role,
        "session": session,
        "action": context.action,
        "resource": context.resource_arn,
        "region": context.region,
        "context": {key: value for key, value in context.service_context.items() if value is not None},
        "decision": decision,
    }
    return json.dumps(fields, sort_keys=True, default=str)


def _writer(path: Path) -> Callable[[str], None]:
    seen: set[str] = set()
    lock = threading.Lock()

    def write(line: str) -> None:
        with lock:
            if line not in seen:
                seen.add(line)
                with path.open("a", encoding="utf-8") as file:
                    file.write(f"{line}\n")

    return write
