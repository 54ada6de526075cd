"""Every function with its sample event, in the order of a run, as `sam local` invokes them in Docker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench_tools.local.invoking import STEPS

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment

pytestmark = [pytest.mark.end_to_end, pytest.mark.nightly("runs")]


def test_every_function_answers_its_sample_event(deployment: Deployment) -> None:
    """A newcomer's first command must not fail because a sample has gone stale; Docker is not everywhere."""
    done = deployment.command("invoke")
    said = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert said.keys() == {step.name for step in STEPS}
    odd = {name.partition(".")[0]: line for name, line in said.items() if not line.endswith("answered")}
    assert odd.keys() == {"BootstrapDsql"}, done.stderr
    assert all("left out: not in this stack" in line for line in odd.values())
    assert done.code == 0
