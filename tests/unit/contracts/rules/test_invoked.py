"""What a phase with `invoked` may stand beside."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.samples.services import small_plan

from stepbench.contracts.plan import TrialPlan


def trial(invoked: dict[str, Any] | None = None, **fields: Any) -> TrialPlan:  # noqa: ANN401 -- a plan's JSON
    """Return a trial of 60 invocations, five at once."""
    phase = {"name": "load", "invoked": invoked or {}, **fields.pop("phase", {})}
    common = {"experiment": "operations", "workload": {"mix": {"read": 1}}, "writers": 60, "max_concurrency": 5}
    return small_plan("postgresql", **{**common, "phases": [phase], **fields})


def refused(*invoked: dict[str, Any], **fields: Any) -> str:  # noqa: ANN401 -- a plan's JSON
    """Return why such a trial is refused."""
    with pytest.raises(ValidationError) as error:
        trial(*invoked, **fields)
    return str(error.value)


def test_fewer_at_once_than_writers_is_the_experiment() -> None:
    """In all other phases every writer has to run at once."""
    assert (trial().concurrency(0), trial().events) == (5, 60)
    assert trial({"operations": 10}).events == 600
    phases = [{"name": "load", "invoked": {}}, {"name": "after", "closed": {"clients": 60, "duration_s": 1}}]
    assert "every writer has to run at once" in refused(phases=phases)


def test_an_inline_map_runs_forty_at_once_whatever_is_asked_for() -> None:
    """Its iterations are in the machine's own history, and its items in its input."""
    assert trial({"map": "inline"}, max_concurrency=None).concurrency(0) == 40
    assert trial(max_concurrency=None).concurrency(0) == 60
    assert "do not fit into a state's 256 KiB" in refused({"map": "inline"}, writers=501)
    phases = [{"name": f"load-{number}", "invoked": {"map": "inline"}} for number in range(5)]
    assert "for one execution's history" in refused(writers=500, phases=phases)
    assert trial(writers=500, phases=phases[:4]).writers == 500


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"phase": {"load": [{"rate_per_s": 1, "count": 1}]}}, "load: stands beside invoked"),
        ({"phase": {"closed": {"clients": 60, "duration_s": 1}}}, "closed: stands beside invoked"),
        ({"phase": {"until": {"relative_width": 1, "max_events": 9}}}, "give load instead of invoked"),
        ({"phase": {"windows": [{"name": "a", "from_s": 0, "to_s": 1}]}}, "length of a phase with invoked is not"),
        ({"load_from": "host"}, "is about Lambda's invocations, and load_from is host"),
        ({"arrivals": "poisson"}, "arrivals: has no effect"),
        ({"experiment": "trigger", "workload": None}, "is of operations, and this trial's experiment is trigger"),
    ],
)
def test_what_has_no_meaning_for_invocations_is_refused(fields: dict[str, Any], message: str) -> None:
    """A plan that seems to ask for something else would be measured as if it did not."""
    assert message in refused(**fields)


def test_no_phase_follows_invocations_without_a_gap() -> None:
    """When they are done is not known before."""
    after = {"name": "after", "gapless": True, "load": [{"rate_per_s": 60, "count": 60}]}
    phases = [{"name": "load", "invoked": {}}, after]
    assert "Take invoked from phase load" in refused(phases=phases, max_concurrency=60)


def test_connections_to_dsql_are_those_of_the_sandboxes_or_of_all_operations() -> None:
    """The cluster takes 1,000 at once and 100 a second: with reuse a connection lives as long as its sandbox."""
    dsql = {"target": {"store": "dsql"}, "writers": 1_000, "max_concurrency": 500}
    fields = {"experiment": "operations", "phases": [{"name": "load", "invoked": {"operations": 5}}], **dsql}
    assert TrialPlan.model_validate({**fields, "workload": {"mix": {"read": 1}}}).writers == 1_000
    with pytest.raises(ValidationError, match=r"phases\[0\]\.invoked: makes more new connections"):
        TrialPlan.model_validate({**fields, "workload": {"mix": {"read": 1}, "reuse": False}})
