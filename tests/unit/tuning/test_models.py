"""Where a trial's model comes from."""

from __future__ import annotations

import pytest
from tests.samples.dags import dataflow_trial
from tests.samples.refusals import Refused, check_trial
from tests.samples.tuning import model

from stepbench.tuning.models import find_model, shipped


def test_a_model_that_does_not_ship_is_refused_with_the_plan() -> None:
    """In a run it would be missed before the first phase, when everything has been made already."""
    target = {"store": "cassandra", "tuning": {"mode": "adaptive", "model": "elsewhere"}}
    check_trial(Refused(dataflow_trial(target=target), "target.tuning.model", "elsewhere", "`stepbench tune`"))


def test_a_model_that_comes_along_is_taken_as_it_is() -> None:
    """On AWS there is no file that could be named."""
    assert find_model(model()) == model()


@pytest.mark.parametrize("name", sorted(shipped()))
def test_what_ships_is_a_model_of_its_name(name: str) -> None:
    """Each states its machine and version: it is of use there, and on its like."""
    found = find_model(name)
    assert found.name == name
    assert found.candidates[0] is None
