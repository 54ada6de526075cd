"""
Inline Maps as on AWS: one that has failed begins no further iteration, and MaxConcurrencyPath bounds it.

MiniStack runs all iterations whatever becomes of them: a DAG whose first level has failed went through all the others.
`shim.py` loads this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextvars
import threading
from typing import Any

Json = dict[str, Any]
_STOPPED = "the Map has failed"


def end_failed_maps(service: Any) -> None:  # noqa: ANN401 -- the module `stepfunctions`
    """Patch it. An iteration that is not begun fails behind those that were, whose error the Map's is."""
    failed: contextvars.ContextVar[threading.Event | None] = contextvars.ContextVar("failed", default=None)
    stock_map, stock_iteration = service._run_map_items, service._run_sub_machine  # noqa: SLF001 -- wrapped

    def run_map(state: Json, raw_input: Any, execution: Json, context: Json) -> Any:  # noqa: ANN401 -- as the original
        if "MaxConcurrencyPath" in state and not _is_distributed(state):
            effective = service._apply_input_path(state, raw_input, context)  # noqa: SLF001
            limit = service._resolve_path_or_ctx(state["MaxConcurrencyPath"], effective, context)  # noqa: SLF001
            state = {**state, "MaxConcurrency": int(limit)}
        token = failed.set(None if _is_distributed(state) else threading.Event())
        try:
            return stock_map(state, raw_input, execution, context)
        finally:
            failed.reset(token)

    def run_iteration(*given: Any) -> Any:  # noqa: ANN401 -- as the original
        of_map = failed.get()
        if of_map is None:
            return stock_iteration(*given)
        if of_map.is_set():
            raise service._ExecutionError(error="States.MapFailed", cause=_STOPPED)  # noqa: SLF001
        token = failed.set(None)
        try:
            return stock_iteration(*given)
        except Exception:
            of_map.set()
            raise
        finally:
            failed.reset(token)

    service._run_map_items, service._run_sub_machine = run_map, run_iteration  # noqa: SLF001


def _is_distributed(state: Json) -> bool:
    processor = state.get("ItemProcessor") or {}
    return bool((processor.get("ProcessorConfig") or {}).get("Mode") == "DISTRIBUTED")
