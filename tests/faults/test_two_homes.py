from __future__ import annotations

import pytest
from tests.end_to_end.deployment import finish
from tests.faults.cases import ETCD
from tests.faults.moments import clean_plan
from tests.faults.surroundings import Surroundings, fresh_surroundings

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def test_two_homes_at_once_do_not_know_of_each_other(surroundings: Surroundings) -> None:
    """The second comes and goes while the first offers load: neither loses an event, a server or a file."""
    before = surroundings.footprint()
    with (
        fresh_surroundings() as second,
        surroundings.deployment.running(clean_plan("first", ETCD, length_s=60)) as first,
    ):
        found = second.deployment.run(clean_plan("second", ETCD))
        assert found.code == 0, found.stderr
        assert second.footprint() == {"temporary files": [], "strays": []}
        finished = finish(first)
    assert finished.code == 0, finished.stderr
    accounting = finished.trial["accounting"]
    assert (accounting["offered"], accounting["ok_arrived"]) == (1200, accounting["ok"])
    assert accounting["ok"] + accounting["unsent"] == 1200
    assert surroundings.leftovers(before) == "nothing"
