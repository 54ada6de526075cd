"""
Many runs at once through the real queue: DynamoDB, Step Functions and the benchmark machine on the emulator.

    python -m benchmarks.queueing [--runs 1000] [--seed 1] [--quick] [--into DIR]

Submissions come from many threads through the API's own function, fuzzed: one to three targets of twelve, some with one
Idempotency-Key three times at once, some stopped wherever they are. Some functions die once, before or after their
work. The benchmark machine is the product's; of its functions, ValidatePlan, AwaitTurn and ConcludeRun are the
product's, too. They run in this process, which a proxy in the emulator's sandboxes asks: so each transaction on the
queue is seen. A trial costs nothing, and RenderReport answers without a report.

A trial takes its run's targets by itself, and would meet another's. That order is kept is judged by what was read: a
run may pass another only if that one was not in the line for the whole time of a look at it.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import socketserver
import tempfile
import threading
import time
import zipfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
import numpy as np
from benchmarks.command import ROOT, Found, run
from benchmarks.result import Case, Figure, Goal
from botocore.config import Config
from tests.samples.services import RESULTS_TABLE, RUNS_TABLE

from stepbench.api import runs
from stepbench.api.resolver import Caller
from stepbench.contracts.runs import (
    AwaitTurnInput,
    ConcludeRunInput,
    QueueEntry,
    RunRequest,
    SweepTargetsInput,
    ValidatePlanInput,
)
from stepbench.records.storage.run_register import RunRegister
from stepbench.services import LONG_CALLS, connect
from stepbench.stages.await_turn import await_turn
from stepbench.stages.conclude_run import conclude_run
from stepbench.stages.sweep_targets import sweep_targets
from stepbench.stages.validate_plan import validate_plan
from stepbench_tools.local.emulator.server import start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import terminate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from stepbench.records.storage.run_queue import First
    from stepbench.services import Services

PREFIX = "queueing"
STAGES: dict[str, Any] = {
    "ValidatePlan": (validate_plan, ValidatePlanInput),
    "AwaitTurn": (await_turn, AwaitTurnInput),
    "ConcludeRun": (conclude_run, ConcludeRunInput),
}
FUNCTIONS = (*STAGES, "RenderReport", "Trial")
TARGETS = 12
CLIENTS = 16
LIMIT_S = 1_800.0
SWEEP_ALL = 20
"""The sweeper's schedule, in looks of a second: a run whose conclusion was lost is concluded by it."""
DEATHS, REPEATED, STOPPED = 0.04, 0.1, 0.1
"""Shares of functions that die once, and of submissions that are sent several times, and that are stopped."""
_ROLE = "arn:aws:iam::000000000000:role/any"
_PROXY = """
import json, os, socket
def handler(event, context):
    with socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 60) as asked:
        asked.sendall(json.dumps({"stage": os.environ["STAGE"], "event": event}).encode() + b"\\n")
        answer = json.loads(asked.makefile().readline())
    if answer.get("dies"):
        os._exit(1)
    if "error" in answer:
        raise type(answer["error"], (Exception,), {})(answer["message"])
    return answer["output"]
"""


class Asked(NamedTuple):
    """A submission. posts: how often it is sent at once, with one key. stop_after_s: None: it is not stopped."""

    targets: tuple[int, ...]
    posts: int
    stop_after_s: float | None


@dataclass
class Seen:
    """What happened in the queue, numbered in the order in which it happened."""

    number: Iterator[int] = field(default_factory=count)
    joined: dict[str, int] = field(default_factory=dict)
    left_line: dict[str, int] = field(default_factory=dict)
    """When the transaction began by which a run was let in, or gave its places back."""
    entries: dict[str, QueueEntry] = field(default_factory=dict)
    looks: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """Of a run that was let in: between which numbers each of its targets was looked at before."""

    def passed(self) -> list[tuple[str, str]]:
        """Return who was let in before whom, though the other was in the line in front of it all the time."""
        lines = defaultdict(list)
        for entry in self.entries.values():
            for target in entry.targets:
                lines[target].append(entry)
        return [
            (run_id, before.run_id)
            for run_id, looks in self.looks.items()
            for target, (began, ended) in looks.items()
            for before in lines[target]
            if before.order < self.entries[run_id].order
            if self.joined[before.run_id] < began and self.left_line.get(before.run_id, ended + 1) > ended
        ]


class WatchedRegister(RunRegister):
    """The register, and what is seen of it."""

    def watch(self, seen: Seen) -> None:
        """Begin."""
        self._seen, self._looked = seen, threading.local()

    def join(self, entry: QueueEntry, token: str, now: datetime) -> bool:
        """See the register."""
        done = super().join(entry, token, now)
        if done and entry.run_id not in self._seen.joined:
            self._seen.entries[entry.run_id] = entry
            self._seen.joined[entry.run_id] = next(self._seen.number)
        return done

    def first(self, target: str) -> First | None:
        """See the register."""
        began = next(self._seen.number)
        found = super().first(target)
        looks = self._looked.__dict__.setdefault("looks", {})
        looks[target] = (began, next(self._seen.number))
        return found

    def admit(self, entry: QueueEntry, now: datetime) -> bool:
        """See the register."""
        began = next(self._seen.number)
        done = super().admit(entry, now)
        if done:
            self._seen.left_line[entry.run_id] = began
            self._seen.looks[entry.run_id] = {target: self._looked.looks[target] for target in entry.targets}
        return done

    def release(self, entry: QueueEntry, now: datetime) -> bool:
        """See the register."""
        began = next(self._seen.number)
        done = super().release(entry, now)
        if done:
            self._seen.left_line.setdefault(entry.run_id, began)
        return done


class Stack(socketserver.ThreadingTCPServer):
    """The functions' work, on loopback; who has which target by the trials' own account; and what went wrong."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.port = int(self.server_address[1])
        self.services: Services
        self.seen = Seen()
        self.faults: list[str] = []
        self.stopped: set[str] = set()
        self.durations_s: defaultdict[str, list[float]] = defaultdict(list)
        self.deaths: Counter[str] = Counter()
        self._random, self._lock = random.Random(seed), threading.Lock()  # noqa: S311 -- no secret
        self._calls: Counter[tuple[str, str]] = Counter()
        self._busy: dict[str, str] = {}

    def answer(self, stage: str, event: dict[str, Any]) -> dict[str, Any]:
        """Do a function's work, unless it dies before; it may die after, too."""
        run_id = event["ref"]["run_id"] if stage == "Trial" else event["run_id"]
        with self._lock:
            self._calls[stage, run_id] += 1
            dies = stage in STAGES and self._calls[stage, run_id] == 1 and self._random.random() < DEATHS
            before = self._random.choice((True, False))
        if dies:
            self.deaths[stage] += 1
            if before:
                return {"dies": True}
        began_s = time.perf_counter()
        try:
            output = self._work(stage, run_id, event)
        except Exception as error:  # noqa: BLE001 -- the proxy raises it again
            return {"error": type(error).__name__, "message": str(error)}
        self.durations_s[stage].append(time.perf_counter() - began_s)
        return {"dies": True} if dies else {"output": output}

    def _work(self, stage: str, run_id: str, event: dict[str, Any]) -> Any:  # noqa: ANN401 -- JSON
        if stage in STAGES:
            work, model = STAGES[stage]
            return work(model.model_validate(event), self.services).model_dump(mode="json")
        if stage == "Trial":
            return self._take(run_id)
        self.give_back(run_id)
        told = {"status": "succeeded", "verdict": "passed", "failed_trials": [], "cause": "", "headline": []}
        return {"run_id": run_id, **told, "report": "s3://b/report.html", "summary": "s3://b/summary.json"}

    def _take(self, run_id: str) -> str:
        with self._lock:
            if run_id not in self.stopped:  # its child may go on for a moment; nobody's trial begins before it is swept
                for target in self.seen.entries[run_id].targets:
                    holder = self._busy.setdefault(target, run_id)
                    if holder != run_id:
                        self.faults.append(f"{run_id} and {holder} have {target} at once")
        return run_id

    def give_back(self, run_id: str, *, stopped: bool = False) -> None:
        """Let go of a run's targets, by the trials' own account."""
        with self._lock:
            self._busy = {target: holder for target, holder in self._busy.items() if holder != run_id}
            if stopped:
                self.stopped.add(run_id)


class _Answering(socketserver.StreamRequestHandler):
    server: Stack

    def handle(self) -> None:
        asked = json.loads(self.rfile.readline())
        self.wfile.write(json.dumps(self.server.answer(asked["stage"], asked["event"])).encode() + b"\n")


@contextmanager
def open_stack(folder: Path, seed: int, endpoint: str = "") -> Iterator[Stack]:
    """Yield the stack on an emulator of its own, or on one that runs; gone at the end."""
    emulator = None if endpoint else start_emulator(Paths(ROOT, folder), concurrency=CLIENTS)
    try:
        with Stack(seed) as stack:
            thread = threading.Thread(target=stack.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                _furnish(stack, emulator.endpoint if emulator else endpoint)
                yield stack
            finally:
                stack.shutdown()
                thread.join(10)
    finally:
        terminate(emulator.pids if emulator else ())


def _furnish(stack: Stack, endpoint: str) -> None:
    config = Config(max_pool_connections=2 * CLIENTS, retries={"mode": "standard", "max_attempts": 5})
    name = f"{PREFIX}-{stack.port}"
    environ = {
        "RESULTS_TABLE": f"{name}-results",
        "RESULTS_BUCKET": f"{name}-results",
        "RUNS_TABLE": f"{name}-runs",
        "FUNCTION_PREFIX": name,
        "EMULATOR": "an emulator",
        "BENCHMARK_ARN": f"arn:aws:states:us-east-1:000000000000:stateMachine:{name}-Benchmark",
    }
    session = boto3.session.Session("test", "test", region_name="us-east-1")
    clients: dict[str, Any] = {
        service: session.client(service, endpoint_url=endpoint, config=config)
        for service in ("dynamodb", "lambda", "stepfunctions", "events", "logs", "s3")
    }
    clients[LONG_CALLS] = clients["lambda"]
    clients["dynamodb"].create_table(TableName=environ["RESULTS_TABLE"], **RESULTS_TABLE)
    clients["dynamodb"].create_table(TableName=environ["RUNS_TABLE"], **RUNS_TABLE)
    clients["s3"].create_bucket(Bucket=environ["RESULTS_BUCKET"])
    resource = session.resource("dynamodb", endpoint_url=endpoint, config=config)
    connected = connect(environ)
    register = WatchedRegister(resource.Table(environ["RUNS_TABLE"]))
    register.watch(stack.seen)
    stack.services = replace(
        connected,
        aws=clients.__getitem__,
        register=register,
        runs=type(connected.runs)(clients["s3"], environ["RESULTS_BUCKET"]),
        table=type(connected.table)(resource.Table(environ["RESULTS_TABLE"])),
    )
    for function in FUNCTIONS:
        _create_function(stack, clients["lambda"], f"{name}-{function}", function)
    _create_machines(clients["stepfunctions"], name)


def _create_function(stack: Stack, client: Any, name: str, stage: str) -> None:  # noqa: ANN401 -- boto3 client
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("proxy.py", _PROXY)
    client.create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role=_ROLE,
        Handler="proxy.handler",
        Timeout=60,
        Code={"ZipFile": archive.getvalue()},
        Environment={"Variables": {"PORT": str(stack.port), "STAGE": stage}},
    )
    client.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 0.1})


def _create_machines(client: Any, name: str) -> None:  # noqa: ANN401 -- boto3 client
    """Create the benchmark machine as it is, and a trial machine whose trial costs nothing."""
    definition = json.loads((ROOT / "statemachines/benchmark.asl.json").read_text())
    task = dict(definition["States"]["ValidatePlan"])
    del task["Catch"], task["Next"]
    task["Parameters"] = {"FunctionName": "${TrialFunctionArn}", "Payload.$": "$"}
    trial = {"StartAt": "Trial", "States": {"Trial": {**task, "End": True}}}
    arn = f"arn:aws:states:us-east-1:000000000000:stateMachine:{name}-Trial"
    for machine, document in (("Trial", trial), ("Benchmark", definition)):
        text = json.dumps(document).replace("${Partition}", "aws").replace("${TrialStateMachineArn}", arn)
        function = rf"arn:aws:lambda:us-east-1:000000000000:function:{name}-\1"
        text = re.sub(r"\$\{(\w+)FunctionArn\}", function, text)
        client.create_state_machine(name=f"{name}-{machine}", definition=text, roleArn=_ROLE)


def fuzzed(number: int, seed: int, targets: int = TARGETS) -> list[Asked]:
    """Return submissions of all kinds."""
    chance = random.Random(seed)  # noqa: S311 -- no secret
    return [
        Asked(
            tuple(chance.sample(range(targets), chance.choice((1, 1, 1, 2, 3)))),
            3 if chance.random() < REPEATED else 1,
            chance.uniform(0, 5) if chance.random() < STOPPED else None,
        )
        for _ in range(number)
    ]


class Ended(NamedTuple):
    """What became of all submissions."""

    submitted_s: float
    ended_s: float
    states: Counter[str]
    most_waiting: int


def submit_all(stack: Stack, submissions: list[Asked], limit_s: float = LIMIT_S) -> Ended:
    """Submit everything from many threads, stop what is to be stopped, and wait until all runs have ended."""
    began_s, done = time.perf_counter(), threading.Event()
    with ThreadPoolExecutor(CLIENTS) as pool, ThreadPoolExecutor(CLIENTS) as stopping:
        sweeping = stopping.submit(_sweep, stack, done)
        posts = [
            pool.submit(_post, stack, index, asked)
            for index, asked in enumerate(submissions)
            for _ in range(asked.posts)
        ]
        ids = list(dict.fromkeys(post.result() for post in posts))
        submitted_s = time.perf_counter() - began_s
        wanted = [asked.stop_after_s for asked in submissions]
        stops = [
            stopping.submit(_stop, stack, run_id, after_s)
            for run_id, after_s in zip(ids, wanted, strict=True)
            if after_s is not None
        ]
        try:
            states, most_waiting = _await_end(stack, ids, began_s + limit_s)
        finally:
            done.set()
        for each in (*stops, sweeping):
            each.result()
    return Ended(submitted_s, time.perf_counter() - began_s, states, most_waiting)


def _post(stack: Stack, index: int, asked: Asked) -> str:
    trials = [
        {
            "name": f"t{target}",
            "target": {"store": "etcd", "endpoint": f"10.0.0.{target + 1}:2379"},
            "phases": [{"name": "load", "load": [{"rate_per_s": 1, "count": 1}]}],
        }
        for target in asked.targets
    ]
    request = RunRequest(plan={"name": f"run-{index}", "trials": trials})
    caller = Caller("somebody", f"team-{index % 3}")
    return runs.submit(request, f"key {index}", caller, stack.services).run_id


def _stop(stack: Stack, run_id: str, after_s: float) -> None:
    """Stop a run as the API does."""
    time.sleep(after_s)
    register = stack.services.register
    run_record = register.find(run_id)
    if run_record is None or run_record.ended:
        return
    stack.give_back(run_id, stopped=True)
    runs.stop(run_id, Caller("somebody", run_record.team), stack.services)


def _sweep(stack: Stack, done: threading.Event) -> None:
    """Sweep each execution that has failed or was stopped, once, as EventBridge's rule does; all, now and then."""
    swept = set[str]()
    for look in count(1):
        if done.wait(1):
            return
        if look % SWEEP_ALL == 0:
            sweep_targets(SweepTargetsInput(), stack.services)
        for status in ("FAILED", "ABORTED"):
            pages = stack.services.aws("stepfunctions").get_paginator("list_executions")
            machine = stack.services.settings.benchmark_arn
            for page in pages.paginate(stateMachineArn=machine, statusFilter=status):
                for execution in page["executions"]:
                    if (arn := execution["executionArn"]) not in swept:
                        swept.add(arn)
                        stack.give_back(execution["name"], stopped=True)
                        sweep_targets(SweepTargetsInput(execution_arn=arn), stack.services)


def _await_end(stack: Stack, ids: list[str], until_s: float) -> tuple[Counter[str], int]:
    register, most, open_ids = stack.services.register, 0, ids
    states: Counter[str] = Counter()
    while open_ids or register.entries():
        most = max(most, sum(not entry.admitted_at for entry in register.entries()))
        ended = {run_id: run.state for run_id in open_ids[:CLIENTS] if (run := register.find(run_id)) and run.ended}
        states.update(ended.values())
        open_ids = [run_id for run_id in open_ids if run_id not in ended]
        if time.perf_counter() > until_s:
            message = f"{len(open_ids)} runs have not ended: {open_ids[:10]}; queue: {register.entries()[:3]}"
            raise TimeoutError(message)
        time.sleep(0.2)
    return states, most


def judge(stack: Stack, ended: Ended, submissions: list[Asked]) -> list[str]:
    """Return what is wrong: two at once on a target, somebody passed, lost, or paid for twice."""
    found = list(stack.faults)
    found += [f"{later} was let in before {earlier}" for later, earlier in stack.seen.passed()]
    if sum(ended.states.values()) != len(submissions) or set(ended.states) - {"succeeded", "stopped", "failed"}:
        found.append(f"of {len(submissions)} runs: {dict(ended.states)}")
    if ended.states["stopped"] > len(stack.stopped):
        found.append(f"{ended.states['stopped']} runs are stopped, and {len(stack.stopped)} were asked to")
    return found


def measure(asked: argparse.Namespace) -> Found:
    """Run it once: it is judged, and timed beside."""
    number = 60 if asked.quick else asked.runs
    submissions = fuzzed(number, asked.seed)
    with tempfile.TemporaryDirectory() as folder, open_stack(Path(folder), asked.seed) as stack:
        ended = submit_all(stack, submissions)
        wrong = judge(stack, ended, submissions)
    for line in wrong[:20]:
        print(line)
    none = Goal(of="value", at_most=0)
    figures = [
        Figure(name="two runs at once on one target", unit="", ours=(len(stack.faults),), goal=none),
        Figure(name="runs that passed another in its line", unit="", ours=(len(stack.seen.passed()),), goal=none),
        Figure(name="runs lost", unit="", ours=(number - sum(ended.states.values()),), goal=none),
        Figure(name="runs that succeeded", unit="", ours=(ended.states["succeeded"],)),
        Figure(name="runs that were stopped", unit="", ours=(ended.states["stopped"],)),
        Figure(name="runs that failed, of which a function died twice", unit="", ours=(ended.states["failed"],)),
        Figure(name="functions that died", unit="", ours=(sum(stack.deaths.values()),)),
        Figure(name="most runs that waited at once", unit="", ours=(ended.most_waiting,)),
        Figure(name="submitted within", unit="s", ours=(ended.submitted_s,)),
        Figure(name="ended within", unit="s", ours=(ended.ended_s,)),
    ]
    for stage in STAGES:
        for q in (0.5, 0.99):
            value = float(np.quantile(stack.durations_s[stage], q)) * 1e3
            figures.append(Figure(name=f"{stage}, p{100 * q:g}", unit="ms", ours=(value,)))
    if wrong:
        message = f"{len(wrong)} things are wrong"
        raise SystemExit(message)
    name = f"{number:,} runs at {TARGETS} targets, {sum(each.posts for each in submissions):,} submissions"
    return Found((Case(name=name, figures=tuple(figures)),))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)


if __name__ == "__main__":
    run(
        "queueing",
        "Does the queue keep its promises when a thousand runs come at once, and what does it cost?",
        measure,
        _options,
    )
