from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.samples.services import MemoryServices, stored_trial

from stepbench.contracts.runs import SweepTargetsOutput
from stepbench_tools.cli.parser import main
from stepbench_tools.local import stack as stacks
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.sweeping import running_stack, sweep

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench_tools.local.stack import Stack


class OneStack:
    """Implements as much of a `Stack` as a sweep needs: leases that are held, and a sweeper's answer."""

    def __init__(self, *held: str, **answer: Any) -> None:  # noqa: ANN401 -- the output's fields
        services = MemoryServices().services
        self.table = services.table
        for number, target in enumerate(held):
            self.table.take_lease(target, stored_trial(services, trial=number), "arn", 1)
        self._answer = SweepTargetsOutput(**{"swept": (), "pending": (), **answer})

    def call(self, function: str, task: dict[str, Any]) -> dict[str, Any]:
        """Answer as the sweeper does that is given no execution."""
        assert (function, task) == ("SweepTargetsFunction", {"execution_arn": None})
        return self._answer.model_dump(mode="json")


HELD = ("redis#a:1", "etcd#b:2", "s3#c")


def test_each_target_has_a_line() -> None:
    """Who held it, and what became of that."""
    stack = OneStack(*HELD, swept=("redis#a:1",), pending=("etcd#b:2",), causes={"etcd#b:2": "no answer within 5 s"})
    assert sweep(cast("Stack", stack)) == (
        (
            "redis#a:1: removed what trial 1 of run run-1 had left, and freed",
            "etcd#b:2: held by trial 2 of run run-1, which is over; not removed yet: no answer within 5 s",
            "s3#c: trial 3 of run run-1 is at work",
        ),
        False,
    )


@pytest.mark.parametrize(
    ("stack", "code", "said"),
    [
        (OneStack(), 0, "nothing is held\n"),
        (OneStack("s3#c"), 0, "s3#c: trial 1 of run run-1 is at work\n"),
        (OneStack("s3#c", pending=("s3#c",)), 4, "not removed yet: see the log of SweepTargets\n"),
    ],
)
def test_the_command_fails_where_something_cannot_be_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stack: OneStack, code: int, said: str
) -> None:
    """It is no failed run: what was to be done could not be done."""
    monkeypatch.setattr(stacks, "remote_stack", lambda _name: stack)
    assert main(["sweep", "--stack", "mine"]) == code
    assert capsys.readouterr().out.endswith(said)


def test_without_an_environment_nothing_is_held(tmp_path: Path) -> None:
    """What there was ended with it."""
    assert running_stack(Paths(tmp_path, tmp_path)) is None
