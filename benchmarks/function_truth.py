"""
Whether the stamps of measured functions are what the functions themselves saw, and every delivery is counted.

    python -m benchmarks.function_truth [--stores s3 dynamodb postgresql] [--runtimes python nodejs] [--events 300]
        [--records table]

Three handlers, which send what they saw to this program: one that does nothing, one of 50 ms ± 20 with
1 % errors, and, on DynamoDB, one that declines some records of a batch once. Each is run by the command line as a
user's is; then the stored stamps and outcomes are compared with that, invocation by invocation. On this
machine's environment, which is started, and left running. Run by hand: some 40 s a case, and longer where events are
tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

from stepbench.contracts.identity import trial_tag
from stepbench.records.formats.t4_items import parse_item
from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.session import running_stack

PYTHON = """
import json, os, random, socket, time
truth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
truth.connect(("127.0.0.1", int(os.environ["TRUTH"])))
declined = set()

def note(context, t4, error="", failed=None):
    fields = {"request": context.aws_request_id, "t4": t4, "t5": time.time_ns(), "error": error, "failed": failed}
    truth.send(json.dumps(fields).encode())

def fast(event, context):
    note(context, time.time_ns())

def slow(event, context):
    t4 = time.time_ns()
    time.sleep(random.uniform(0.03, 0.07))
    if random.random() < 0.01:
        note(context, t4, "RuntimeError")
        raise RuntimeError("planted")
    note(context, t4)

def partial(event, context):
    t4 = time.time_ns()
    numbers = [record["dynamodb"]["SequenceNumber"] for record in event["Records"]]
    failed = [number for number in numbers if number not in declined and random.random() < 0.03]
    declined.update(failed)
    note(context, t4, failed=failed)
    return {"batchItemFailures": [{"itemIdentifier": number} for number in failed]}
"""
NODEJS = """
const truth = require('dgram').createSocket('udp4');
const declined = new Set();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function now() { return Math.round((performance.timeOrigin + performance.now()) * 1e6); }
function note(context, t4, error = '', failed = null) {
  const fields = { request: context.awsRequestId, t4, t5: now(), error, failed };
  truth.send(JSON.stringify(fields), Number(process.env.TRUTH), '127.0.0.1');
}
exports.fast = async (event, context) => note(context, now());
exports.slow = async (event, context) => {
  const t4 = now();
  await sleep(30 + 40 * Math.random());
  if (Math.random() < 0.01) {
    note(context, t4, 'Error');
    throw new Error('planted');
  }
  note(context, t4);
};
exports.partial = async (event, context) => {
  const t4 = now();
  const numbers = event.Records.map((record) => record.dynamodb.SequenceNumber);
  const failed = numbers.filter((number) => !declined.has(number) && Math.random() < 0.03);
  failed.forEach((number) => declined.add(number));
  note(context, t4, '', failed);
  return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
};
"""
HANDLERS = ["fast", "slow", "partial"]
CODE = {"python": ("app.py", PYTHON, None), "nodejs": ("app.js", NODEJS, "nodejs20.x")}


class Case(NamedTuple):
    """One handler of one runtime on one store."""

    store: str
    runtime: str
    handler: str
    records: str = "log"

    def plan(self, folder: Path, port: int, events: int) -> dict[str, Any]:
        """Return the plan of its run."""
        runtime = CODE[self.runtime][2]
        function = {"code": str(folder), "handler": f"app.{self.handler}", "attempts": 3, "timeout_s": 20}
        function |= {"records": self.records}
        function |= {"variables": {"TRUTH": str(port)}} | ({"runtime": runtime} if runtime else {})
        rate = 50 if self.handler == "partial" else 10
        load = [{"rate_per_s": rate, "count": events}]
        target = {"store": self.store, "function": function}
        return {"name": "truth", "trials": [{"target": target, "phases": [{"name": "load", "load": load}]}]}


class Truth:
    """It listens, on loopback, to what handlers say of their invocations."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while message := self._socket.recv(1 << 16):
            self.seen.append(json.loads(message))

    def close(self) -> None:
        """Let the thread end with an empty message."""
        self._socket.sendto(b"", ("127.0.0.1", self.port))


def run(case: Case, events: int) -> dict[str, Any]:
    """Run a case and compare; return the figures."""
    truth = Truth()
    with tempfile.TemporaryDirectory() as place:
        code, plan = Path(place, "code"), Path(place, "plan.json")
        code.mkdir()
        name, source, _ = CODE[case.runtime]
        (code / name).write_text(source)
        plan.write_text(json.dumps(case.plan(code, truth.port, events)))
        command = [sys.executable, "-m", "stepbench_tools.cli", "run", str(plan), "--no-floors"]
        command += ["--out", str(Path(place, "out")), "--quiet"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        found = [*Path(place, "out").glob("*/summary.json")]
        if ended.returncode or not found:
            raise SystemExit(ended.stderr)
        summary = json.loads(found[0].read_text())
    truth.close()
    return _compare(summary, truth.seen)


def _compare(summary: dict[str, Any], seen: list[dict[str, Any]]) -> dict[str, Any]:
    stored = _items(trial_tag(summary["run_id"], 0))
    by_request: dict[str, list[dict[str, Any]]] = {}
    for one in sorted(seen, key=lambda each: each["t4"]):
        by_request.setdefault(one["request"], []).append(one)
    begins, calls, ends, wrong = [], [], [], 0
    for request, items in stored.items():
        own = by_request.pop(request, [])
        if len(own) != len(items):
            wrong += 1
            continue
        for item, one in zip(sorted(items, key=lambda each: each["t4"]), own, strict=True):
            begins.append((item["t4"] - one["t4"]) / 1e6)
            calls.append((item["called"] - one["t4"]) / 1e6)
            ends.append((item["t5"] - one["t5"]) / 1e6)
            wrong += item["error"] != one["error"] or (
                one["failed"] is not None and item["partly"] != bool(one["failed"])
            )
    handler = summary["trials"][0]["windows"][0]["handler"]
    return {
        "invocations": len(begins),
        "unmatched": wrong + len(by_request),
        "t4_p50_ms": statistics.median(begins),
        "t4_worst_ms": max(begins, key=abs),
        "called_p50_ms": statistics.median(calls),
        "t5_p50_ms": statistics.median(ends),
        "t5_worst_ms": max(ends, key=abs),
        "errors": sum(bool(one["error"]) for one in seen),
        "declined": sum(len(one["failed"] or ()) for one in seen),
        "redelivered": handler["redelivered"],
        "accounting": {name: value for name, value in summary["trials"][0]["accounting"].items() if value},
    }


def _items(tag: str) -> dict[str, list[dict[str, Any]]]:
    """Return the stored invocations of a trial, by request."""
    stack = running_stack(find_paths(os.environ, Path(__file__)))
    if stack is None:
        message = "nothing runs: start with `stepbench up`"
        raise SystemExit(message)
    found: dict[str, list[dict[str, Any]]] = {}
    for item in stack.table.t4_items(tag):
        parsed = parse_item(item)
        partly = int(item["failed_from"]) < int(item["batch"]) and not item["error"]
        fields = {"t4": int(str(item["sk"]).rpartition("#")[2]), "t5": int(item["t5_ns"])}
        fields["called"] = int(item["called_ns"])
        found.setdefault(parsed.request_id, []).append({**fields, "error": str(item["error"]), "partly": partly})
    return found


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", nargs="+", default=["s3", "dynamodb", "postgresql"])
    parser.add_argument("--runtimes", nargs="+", choices=list(CODE), default=list(CODE))
    parser.add_argument(
        "--handlers", nargs="+", choices=["fast", "slow", "partial"], default=["fast", "slow", "partial"]
    )
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--records", choices=["log", "table"], default="log", help="where the layer's lines go")
    options = parser.parse_args()
    for runtime in options.runtimes:
        for store in options.stores:
            for handler in options.handlers:
                if handler != "partial" or store == "dynamodb":
                    found = run(Case(store, runtime, handler, options.records), options.events)
                    print(json.dumps({"case": f"{store} {runtime} {handler}", **found}), flush=True)


if __name__ == "__main__":
    main()
