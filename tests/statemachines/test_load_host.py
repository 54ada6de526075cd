"""Writers that a load host takes from the queue: what it answers, what it does not, and that nobody is there."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.config import Config
from tests.statemachines.lab import ROOT, TABLE, Ending, Lab, Scenario, open_lab

from stepbench.records.storage.trial_table import TrialTable, dynamodb_table

pytestmark = pytest.mark.emulator
Answer = Callable[[dict[str, Any]], tuple[str, dict[str, str]]]
DONE = ("success", {"output": "{}"})
HEARTBEAT_S = 2
"""Of the impatient machine, where silence is waited for; a slow machine's host has the product's own limit."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield one emulator for the module."""
    with open_lab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened


@contextmanager
def host(lab: Lab, answer: Answer, beats: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Answer what is in the queue, each after so many signs of life; yields the tasks that came."""
    seen: list[dict[str, Any]] = []
    stop, sqs, states = threading.Event(), lab.aws("sqs"), lab.aws("stepfunctions")

    def run(body: dict[str, Any]) -> None:
        for _ in range(beats):
            stop.wait(HEARTBEAT_S / 20)
            states.send_task_heartbeat(taskToken=body["token"])
        what, fields = answer(body["task"])
        getattr(states, f"send_task_{what}")(taskToken=body["token"], **fields)

    def serve() -> None:
        with ThreadPoolExecutor(4) as pool:
            while not stop.is_set():
                for message in sqs.receive_message(QueueUrl=lab.queue, WaitTimeSeconds=1).get("Messages", ()):
                    sqs.delete_message(QueueUrl=lab.queue, ReceiptHandle=message["ReceiptHandle"])
                    seen.append(json.loads(message["Body"])["task"])
                    pool.submit(run, json.loads(message["Body"]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join(30)


@pytest.fixture(autouse=True)
def _empty_queue(lab: Lab) -> Iterator[None]:
    yield
    lab.aws("sqs").purge_queue(QueueUrl=lab.queue)


@pytest.fixture(scope="module")
def impatient(lab: Lab) -> str:
    """Deploy the trial machine with a short limit for signs of life."""
    lab.deploy("impatient", (ROOT / "statemachines/trial.asl.json").read_text(), HEARTBEAT_S)
    return "impatient"


def _run(lab: Lab, name: str, machine: str = "trial") -> tuple[Ending, dict[str, str]]:
    """Return how a trial with load from a host ended, and the causes of slices that were given up, by error."""
    scenario = Scenario(name, load_from="host")
    ending = lab.run(machine, scenario, lab.trial_input(scenario))
    missing = TrialTable(dynamodb_table(lab.session, TABLE, Config(), lab.endpoint)).missing_writers(name)
    return ending, dict(missing.values())


def test_a_host_gets_what_the_function_would_get(lab: Lab) -> None:
    """Two phases of two writers, and no function runs beside it."""
    with host(lab, lambda _: DONE) as tasks:
        ending, missing = _run(lab, "hosted")
    assert (ending.status, missing) == ("SUCCEEDED", {})
    assert "RunWriter" not in ending.stages
    assert sorted((task["item"]["writer"], task["attempt"]) for task in tasks) == [(0, 0), (0, 0), (1, 0), (1, 0)]


@pytest.mark.nightly("load-host")
def test_signs_of_life_keep_a_slice_that_lasts(lab: Lab, impatient: str) -> None:
    """For twice the limit."""
    with host(lab, lambda _: DONE, beats=40) as tasks:
        ending, _ = _run(lab, "lasting", impatient)
    assert ending.status == "SUCCEEDED"
    first = [task for task in tasks if task["attempt"] == 0]
    assert len(first) == 4


def test_a_host_s_errors_are_retried_as_the_function_s_are(lab: Lab) -> None:
    """A store that is away is asked twice more; a writer that is told to stop is not."""

    def answer(task: dict[str, Any]) -> tuple[str, dict[str, str]]:
        errors = {0: "TargetUnavailableError", 1: "TrialCancelledError"}
        if task["attempt"] and task["item"]["writer"] == 0:
            return DONE
        return "failure", {"error": errors[task["item"]["writer"]], "cause": '{"errorMessage": "why"}'}

    with host(lab, answer) as tasks:
        ending, missing = _run(lab, "failing")
    assert ending.status == "SUCCEEDED"
    assert missing == {"TrialCancelledError": '{"errorMessage": "why"}'}
    assert sorted({(task["item"]["writer"], task["attempt"]) for task in tasks}) == [(0, 0), (0, 1), (1, 0)]


@pytest.mark.nightly("load-host")
def test_a_queue_that_nobody_asks_is_given_up_and_who_asks_too_late_is_refused(lab: Lab, impatient: str) -> None:
    """An activity would wait for a year: its time-outs begin when it is taken. Nobody else offers the slice then."""
    ending, missing = _run(lab, "silent", impatient)
    assert ending.status == "SUCCEEDED"
    assert missing == {
        "LoadHostLostError": "no load host took the slice, or the one that did gave no sign of life for 20 s"
    }
    states, sqs = lab.aws("stepfunctions"), lab.aws("sqs")
    (message, *_) = sqs.receive_message(QueueUrl=lab.queue, WaitTimeSeconds=1)["Messages"]
    with pytest.raises(states.exceptions.TaskDoesNotExist):
        states.send_task_heartbeat(taskToken=json.loads(message["Body"])["token"])
