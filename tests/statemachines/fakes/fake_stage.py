"""
One Lambda function (and task) for all stages: does what the scenario says, and notes that it was called.

The scenario travels as the trial's `run_id`, so that nothing is shared between executions; the journal is kept by the
test, at a port, since a sandbox writes no files but its own. Runs under the Lambda interpreter, which has nothing of
ours.
"""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import datetime, timedelta, timezone
from typing import Any

NAME = os.environ["STAGE"]
JOURNAL = int(os.environ["JOURNAL"])
EXIT = "Runtime.ExitError"
HELD_S = 240
EXPIRES_AT = 1_999_999_999


def handler(event: dict[str, Any], _context: object) -> Any:  # noqa: ANN401 -- JSON
    """Note the call; fail as told, or answer."""
    scenario = _scenario(event)
    calls = _note(scenario["id"], event)
    error, times = scenario["fail"].get(NAME, ("", 0))
    if calls <= times:
        if error == EXIT:
            os._exit(1)
        message = "as the scenario says"
        raise type(error, (Exception,), {})(message)
    until = time.monotonic() + HELD_S
    while scenario["hold"] == NAME and not _ask({"released": scenario["id"]}):
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    if NAME == "AwaitTurn":
        _let_in(event["token"])
    return _answer(event, scenario, calls)


def _let_in(token: str) -> None:
    """Let the execution go on, as whoever makes room in the queue does."""
    import boto3  # half a second, for this stage alone

    boto3.client("stepfunctions").send_task_success(taskToken=token, output="{}")


def _scenario(event: dict[str, Any]) -> dict[str, Any]:
    if NAME == "ValidatePlan":
        return dict(event["plan"])
    if NAME in {"AwaitTurn", "RenderReport", "ConcludeRun"}:
        return dict(json.loads(event["run_id"]))
    ref = event["item"]["ref"] if "item" in event else event["ref"]
    return dict(json.loads(ref["run_id"]))


def _note(scenario: str, event: dict[str, Any]) -> int:
    return _ask({"id": scenario, "call": {"stage": NAME, "event": event}})


def _ask(question: dict[str, Any]) -> int:
    """Tell the journal, or ask it."""
    with socket.create_connection(("127.0.0.1", JOURNAL)) as connection, connection.makefile("rw") as lines:
        lines.write(json.dumps(question) + "\n")
        lines.flush()
        return int(lines.readline())


def _stamp(ahead: timedelta) -> str:
    """Return a time as our handlers do, in UTC with its letter."""
    return (datetime.now(timezone.utc) + ahead).isoformat().replace("+00:00", "Z")  # noqa: UP017 -- any Python


def _answer(event: dict[str, Any], scenario: dict[str, Any], calls: int) -> Any:  # noqa: ANN401 -- JSON
    now, soon = (_stamp(timedelta(seconds=seconds)) for seconds in (0, 60))
    answers: dict[str, Any] = {
        "ValidatePlan": lambda: _planned(scenario, now),
        "AwaitTurn": lambda: {"admitted": True, "ahead": 0},
        "RenderReport": lambda: _report(event),
        "ConcludeRun": lambda: {"state": "succeeded", "admitted": []},
        "PrepareTarget": lambda: {
            "lanes": scenario["lanes"],
            "ready_by": soon,
            "flags_expire_at": EXPIRES_AT,
            "seeds": scenario["seeds"],
            "makes": bool(scenario["inputs"]),
            "inputs": [{"dag": name, "function": name} for name in scenario["inputs"]],
        },
        "MakeInput": lambda: {"input_bytes": 1},
        "MakeVideoInput": lambda: {"input_bytes": 1},
        "MakeLearningInput": lambda: {"input_bytes": 1},
        "RunTask": lambda: {"read_bytes": 0, "written_bytes": 1, "cold": False},
        "RunVideoTask": lambda: {"read_bytes": 0, "written_bytes": 1, "cold": False},
        "RunLearningTask": lambda: {"read_bytes": 0, "written_bytes": 1, "cold": False},
        "EndDataflow": lambda: {"completed": not event["failure"]["Error"], "deleted": 0, "left": 0},
        "SeedFiles": lambda: {"done": calls > 1},
        "AwaitTarget": lambda: {"ready": calls > 1},
        "WatchChanges": lambda: {"stopped": calls > len(scenario["lanes"]), "next_at": now},
        "ScaleTarget": lambda: {"done": calls > 1},
        "PlanPhase": lambda: {
            "needed": event["phase"] not in scenario["unneeded"],
            "items_bucket": scenario["bucket"],
            "items_key": scenario["id"],
            "max_concurrency": 2,
            "items": _invocations(event) if scenario["invoked"] == "inline" else [],
            "inline": scenario["invoked"] == "inline",
            "invoked": bool(scenario["invoked"]),
            "expires_at": EXPIRES_AT,
        },
        "RunWriter": lambda: {"sent": 1, "ok": 1, "failed": 0, "unknown": 0, "unsent": 0},
        "RefreshSandboxes": lambda: {"changed_to": "any"},
        "RunTransfer": lambda: {"ok": 2, "failed": 0, "unknown": 0, "cold": True},
        "RunTransferTask": dict,
        "CheckPrecision": lambda: {"done": calls > 1, "next_at": now},
        "MeasureUtilisation": lambda: {"done": calls > 1},
        "AwaitArrivals": lambda: {"done": calls > 1, "expected": 2, "arrived": 2},
        "CollectLogs": lambda: {"done": calls > 1, "token": f"page {calls}"},
        "AnalyseTrial": lambda: {"result_key": "result.json"},
        "ExportRecords": lambda: {"key": "records.parquet", "rows": 2},
        "TearDownTarget": lambda: {"done": calls > 1},
    }
    return answers[NAME]()


def _invocations(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an inline Map's items, of two writers."""
    item = {"ref": event["ref"], "phase": event["phase"], "slice": 0, "expires_at": EXPIRES_AT}
    return [{**item, "writer": writer, "invoked": True} for writer in range(2)]


def _planned(scenario: dict[str, Any], now: str) -> dict[str, Any]:
    run_id = json.dumps(scenario)
    trials = [
        {
            "ref": {"run_id": json.dumps(child), "trial": index, "tag": child["id"]},
            "name": f"trial-{index}",
            "child_name": child["id"],
            "pull": False,
            "phases": [{"index": 0, "settle_s": 0, "scale": False}],
        }
        for index, child in enumerate(scenario["children"])
    ]
    return {"run_id": run_id, "started_at": now, "trials": trials, "estimate_usd": 0.0}


def _report(event: dict[str, Any]) -> dict[str, Any]:
    failed = [f"trial-{outcome['trial']}" for outcome in event["outcomes"] if outcome["error"]]
    ran = bool(event["outcomes"])
    return {
        "run_id": "run",
        "status": "failed" if failed or not ran else "succeeded",
        "failed_trials": failed,
        "cause": f"failed: {', '.join(failed) or 'all'}",
        "headline": [],
        "report": "s3://bucket/report.html",
        "summary": "s3://bucket/summary.json",
    }


if __name__ == "__main__":  # as a task, whose input is a variable
    handler(json.loads(os.environ["TRANSFER_TASK"]), None)
