"""Causes as Step Functions passes them on; of each the words that tell somebody what to do."""

from __future__ import annotations

import json

import pytest

from stepbench.contracts.documents import Failure, plain_cause

RAISED = {"errorMessage": "trial t-0001 is cancelled", "errorType": "TrialCancelledError", "stackTrace": ["  File …"]}


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (json.dumps(RAISED), "trial t-0001 is cancelled"),
        pytest.param(f"Cancelled: {json.dumps(RAISED)}", "Cancelled: trial t-0001 is cancelled", id="passed on"),
        ("stopped by the user", "stopped by the user"),
        ("no key {a} there", "no key {a} there"),
        ('{"other": 1}', '{"other": 1}'),
        ("[1]", "[1]"),
        ("", ""),
    ],
)
def test_what_a_function_raised_is_told_without_its_stack(cause: str, told: str) -> None:
    """Twenty lines of file names are no answer; the function's log has them."""
    assert Failure(error="E", cause=cause).cause == told


NO_ROOM = "Capacity is unavailable at this time. Please try again later or in a different availability zone"
KILLED = {
    "TaskArn": "arn:aws:ecs:eu-west-1:000000000000:task/stepbench/1",
    "Containers": [{"Name": "transfer", "ExitCode": 137, "Reason": "OutOfMemoryError: Container killed"}],
    "StopCode": "EssentialContainerExited",
    "StoppedReason": "Essential container in task exited",
}
NOT_STARTED = {
    "Containers": [{"Name": "transfer", "LastStatus": "STOPPED"}],
    "StopCode": "TaskFailedToStart",
    "StoppedReason": "CannotPullContainerError: no route",
}
CAUSES = {
    "a function's": (
        json.dumps({"errorType": "KeyError", "errorMessage": "'files'", "stackTrace": ["…"]}),
        "'files'",
    ),
    "passed on": (
        'SeedFiles: {"errorMessage": "no bucket"}',
        "SeedFiles: no bucket",
    ),
    "no room for a task": (json.dumps({"Failures": [{"Reason": NO_ROOM}], "Tasks": []}), NO_ROOM),
    "a task that was killed": (
        json.dumps(KILLED),
        "Essential container in task exited; OutOfMemoryError: Container killed; exit code 137",
    ),
    "a task that never began": (json.dumps(NOT_STARTED), "CannotPullContainerError: no route"),
    "what nobody has promised": (
        '{"Failures": [{"Arn": "arn"}, 1], "Containers": 3}',
        '{"Failures": [{"Arn": "arn"}, 1], "Containers": 3}',
    ),
    "text": ("Task timed out {after} 2 s", "Task timed out {after} 2 s"),
    "another document": ('{"some": "thing"}', '{"some": "thing"}'),
}


@pytest.mark.parametrize(("cause", "said"), CAUSES.values(), ids=CAUSES)
def test_a_cause_says_what_happened(cause: str, said: str) -> None:
    """A task's description is 3 KB, and its exit code comes last: cut off at 200 characters it said nothing."""
    assert plain_cause(cause) == said
    assert Failure(error="E", cause=cause).cause == said


def test_a_cause_that_is_nested_without_end_is_left_as_it_is() -> None:
    """A store's error is a part of it; the analysis of the trial ended by a RecursionError."""
    cause = '{"errorMessage": ' + "[" * 100_000
    assert plain_cause(cause) == cause
