from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.records import trial_spec

from stepbench.contracts.phase import SLICE_S, LoadStep, Phase
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import EtcdTarget
from stepbench.workload.arrivals import phase_offsets_ns, slice_counts, slice_end_ns, slice_offsets_ns, think_times_ns

TARGET = EtcdTarget(store="etcd")
SECOND_NS = 1_000_000_000
steps = st.one_of(
    st.builds(LoadStep, rate_per_s=st.floats(1, 50), duration_s=st.floats(1.5, 1_500)),
    st.builds(LoadStep, rate_per_s=st.floats(0.5, 50), count=st.integers(1, 5_000)),
)
loads = st.lists(steps, min_size=1, max_size=3)


def plan(*load: LoadStep, **fields: Any) -> TrialPlan:  # noqa: ANN401 -- a plan's fields
    """Return a plan of one phase."""
    return trial_spec(TARGET, *load, **fields).offered


def aggregate_ns(whole: TrialPlan) -> list[int]:
    """Return what all writers offer together, in order."""
    parts = [phase_offsets_ns(whole, 0, writer) for writer in range(whole.writers)]
    return sorted(int(each) for part in parts for each in part)


def test_constant_arrivals_are_evenly_spaced() -> None:
    """By hand: 4 a second for one second, from the phase's start on."""
    due_ns = phase_offsets_ns(plan(LoadStep(rate_per_s=4, duration_s=1)), 0, 0)
    assert (due_ns / SECOND_NS).tolist() == [0, 0.25, 0.5, 0.75]


def test_two_writers_take_turns_across_a_load_step() -> None:
    """By hand: 3 events 0.5 s apart, then 4 events 0.25 s apart; even ones to writer 0, odd ones to writer 1."""
    both = plan(LoadStep(rate_per_s=2, count=3), LoadStep(rate_per_s=4, duration_s=1), writers=2)
    assert (phase_offsets_ns(both, 0, 0) / SECOND_NS).tolist() == [0.0, 1.0, 1.75, 2.25]
    assert (phase_offsets_ns(both, 0, 1) / SECOND_NS).tolist() == [0.5, 1.5, 2.0]


@settings(max_examples=60, deadline=None)
@given(load=loads, writers=st.integers(1, 7))
def test_all_writers_together_offer_the_exact_constant_schedule(load: list[LoadStep], writers: int) -> None:
    """How many writers there are must not show in the offered load."""
    alone = phase_offsets_ns(plan(*load), 0, 0).tolist()
    assert aggregate_ns(plan(*load, writers=writers)) == alone


@settings(max_examples=60, deadline=None)
@given(load=loads, writers=st.integers(1, 5), arrivals=st.sampled_from(["constant", "poisson"]))
def test_slices_partition_the_phase(load: list[LoadStep], writers: int, arrivals: str) -> None:
    """An event in two slices would be sent twice; one in none, never."""
    whole = plan(*load, writers=writers, arrivals=arrivals)
    slices = whole.phases[0].slices
    for writer in range(writers):
        parts = [slice_offsets_ns(whole, 0, writer, number) for number in range(slices)]
        assert np.concatenate(parts).tolist() == phase_offsets_ns(whole, 0, writer).tolist()
        assert slice_counts(whole, 0, writer).tolist() == [part.size for part in parts]
        for number, part in enumerate(parts):
            assert all(number * SLICE_S * SECOND_NS <= each <= slice_end_ns(whole, 0, number) for each in part)


@settings(max_examples=60, deadline=None)
@given(
    rates=st.lists(st.tuples(st.floats(0.5, 500), st.integers(1, 3_000)), min_size=1, max_size=3),
    writers=st.integers(1, 9),
    arrivals=st.sampled_from(["constant", "poisson"]),
)
def test_a_count_is_offered_exactly(rates: list[tuple[float, int]], writers: int, arrivals: str) -> None:
    """200 events means 200, whatever the arrivals and the number of writers."""
    load = [LoadStep(rate_per_s=rate, count=count) for rate, count in rates]
    assert len(aggregate_ns(plan(*load, writers=writers, arrivals=arrivals))) == sum(count for _, count in rates)


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_due_times_ascend_and_stay_within_their_phase(arrivals: str) -> None:
    """The engine takes them in order, and the next phase begins where this one ends."""
    whole = plan(LoadStep(rate_per_s=30, duration_s=700), LoadStep(rate_per_s=90, duration_s=20), arrivals=arrivals)
    due_ns = phase_offsets_ns(whole, 0, 0)
    assert np.all(np.diff(due_ns) >= 0)
    assert due_ns[0] >= 0
    assert due_ns[-1] < 720 * SECOND_NS


def test_poisson_arrivals_repeat_by_seed_and_differ_by_writer_phase_and_seed() -> None:
    """A rerun must offer the same load; two writers must not fire in step."""

    def draw(seed: int, phase: int, writer: int) -> list[int]:
        one = Phase(name="a", load=(LoadStep(rate_per_s=20, count=100),))
        both = TrialPlan(
            target=TARGET, phases=(one, one.model_copy(update={"name": "b"})), arrivals="poisson", seed=seed, writers=2
        )
        return [int(each) for each in phase_offsets_ns(both, phase, writer)]

    drawn = [draw(7, 0, 0), draw(8, 0, 0), draw(7, 1, 0), draw(7, 0, 1)]
    assert drawn[0] == draw(7, 0, 0)
    assert all(one != other for one, other in pairwise([*drawn, drawn[0]]))


def test_poisson_gaps_are_exponential() -> None:
    """In an exponential distribution with mean 10 ms, 36.8 % of gaps exceed the mean and 5 % exceed 30 ms."""
    whole = plan(LoadStep(rate_per_s=200, duration_s=500), arrivals="poisson", writers=2)
    due_ns = phase_offsets_ns(whole, 0, 0)
    gaps = np.diff(due_ns)
    assert due_ns.size == pytest.approx(50_000, abs=4 * 50_000**0.5)
    assert np.mean(gaps > 10_000_000) == pytest.approx(np.exp(-1), abs=0.01)
    assert np.mean(gaps > 30_000_000) == pytest.approx(np.exp(-3), abs=0.005)


def test_the_last_slice_ends_with_its_phase() -> None:
    """Waiting out a whole slice would leave a gap before the next phase."""
    whole = plan(LoadStep(rate_per_s=1, duration_s=700))
    assert [slice_end_ns(whole, 0, number) for number in (0, 1)] == [600 * SECOND_NS, 700 * SECOND_NS]


def first(client: int) -> int:
    """Return a client's first constant pause."""
    return next(think_times_ns(0.37, "constant", (7, client)))


def test_constant_pauses_are_alike_after_a_random_beginning() -> None:
    """Ten clients in step would be a burst of ten every 0.37 s, and no low load."""
    pauses = list(islice(think_times_ns(0.37, "constant", (7, 0)), 50))
    assert set(pauses[1:]) == {370_000_000}
    firsts = np.array([first(client) for client in range(500)])
    assert scipy.stats.kstest(firsts / 370_000_000, "uniform").pvalue > 0.001


def test_exponential_pauses_have_their_mean_and_no_memory() -> None:
    """Kolmogorov-Smirnov against the exponential distribution, 3,000 pauses over several blocks."""
    pauses = np.array(list(islice(think_times_ns(0.01, "exponential", (7, 0)), 3_000)))
    assert scipy.stats.kstest(pauses / 10_000_000, "expon").pvalue > 0.001
    assert pauses[:1_024].tolist() != pauses[1_024:2_048].tolist()


@pytest.mark.parametrize("distribution", ["constant", "exponential"])
def test_no_pause_is_no_pause(distribution: str) -> None:
    """Throughput mode: all begin together."""
    assert set(islice(think_times_ns(0, distribution, (7, 0)), 2_000)) == {0}  # type: ignore[arg-type]


def test_pauses_follow_from_the_seed() -> None:
    """A retried attempt pauses alike; another client does not."""
    assert first(3) == first(3) != first(4)
