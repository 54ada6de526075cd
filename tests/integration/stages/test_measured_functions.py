"""Functions of a plan, looked at on the emulator before anything is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.support.measuring_layer import zipped

from stepbench.errors import PlanError
from stepbench.planning.reading import parse_expanded
from stepbench.stages.measured_functions import check_functions

if TYPE_CHECKING:
    from stepbench.planning import Expanded
    from stepbench.services import Services

pytestmark = pytest.mark.emulator


def _trials(*names: str, times: str = "layer") -> tuple[Expanded, ...]:
    phases = [{"name": "only", "load": [{"rate_per_s": 1, "count": 10}]}]
    trials = [{"name": f"t{n}", "target": {"store": "s3", "function": {"name": name, "times": times}}, "phases": phases}
              for n, name in enumerate(names)]  # fmt: skip
    return parse_expanded({"name": "plan", "trials": trials})[1]


def test_a_stack_whose_name_leaves_no_room_for_copies_is_refused(services: Services) -> None:
    """Lambda's names have 64 letters; each trial would fail while it is prepared."""
    named = replace(services, settings=services.settings.model_copy(update={"function_prefix": "a" * 40}))

    with pytest.raises(PlanError) as refused:
        check_functions(_trials("orders"), named)

    (problem,) = refused.value.problems
    assert (problem.path, problem.remedy) == (
        "trials[0].target.function",
        "Deploy the stack under a name of at most 39 letters.",
    )


def test_each_that_cannot_be_measured_is_named_once_with_its_place(services: Services) -> None:
    """The run is refused before any trial of it begins, with all reasons at once."""
    good, wrapped = (f"{services.settings.function_prefix}-{name}" for name in ("good", "wrapped"))
    code = zipped({"app.py": "def handler(event, context): pass"})
    for name, variables in ((good, {}), (wrapped, {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/x"})):
        services.aws("lambda").create_function(
            FunctionName=name,
            Runtime="python3.11",
            Role="arn:aws:iam::000000000000:role/any",
            Handler="app.handler",
            Code={"ZipFile": code},
            Environment={"Variables": variables},
        )
    check_functions(_trials(good), services)
    check_functions(_trials(good, wrapped, times="own"), services)

    with pytest.raises(PlanError) as refused:
        check_functions(_trials(good, wrapped, "nowhere", wrapped), services)

    assert [(each.path, each.message.split(" (")[0]) for each in refused.value.problems] == [
        ("trials[1].target.function.name", "has a wrapper already"),
        ("trials[2].target.function.name", "is no function of this account and region"),
    ]
    for name in (good, wrapped):
        services.aws("lambda").delete_function(FunctionName=name)
