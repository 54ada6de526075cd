"""Configurations of Cassandra: what a change of them takes, and which of a model's are to be chosen from."""

from __future__ import annotations

import pytest
from tests.samples.tuning import LEVELED, SCATTER, confirmation, model

from stepbench.contracts.tuning import AS_RELEASED, CassandraConfiguration


@pytest.mark.parametrize(
    ("after", "restarts"),
    [
        (CassandraConfiguration(compaction="leveled", concurrent_writes=16, concurrent_compactors=2), False),
        (CassandraConfiguration(file_cache_mib=0), True),
        (CassandraConfiguration(memtable_cleanup_threshold=0.11), True),
    ],
)
def test_a_node_is_restarted_only_for_what_cannot_be_changed_while_it_runs(
    after: CassandraConfiguration,
    restarts: bool,  # noqa: FBT001 -- a parameter of a test
) -> None:
    """A restart is the outage that the decision has to pay for."""
    assert after.restarts(AS_RELEASED) is restarts
    assert not after.restarts(after)


@pytest.mark.parametrize(("low", "held"), [(1.02, True), (0.98, False), (None, False)])
def test_a_gain_that_did_not_hold_makes_no_candidate(low: float | None, held: bool) -> None:  # noqa: FBT001 -- as above
    """Most configurations that were the best under noise are not, once they are started anew."""
    tuned = model(confirmations=(confirmation(LEVELED, SCATTER, low=low),))
    assert tuned.candidates == ((AS_RELEASED, LEVELED) if held else (AS_RELEASED,))
