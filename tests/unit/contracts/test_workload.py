from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stepbench.contracts.phase import SLICE_S, Phase
from stepbench.contracts.workload import MOST_OPERATIONS, ClosedLoad, Mix, Workload

YCSB = {
    "a": {"mix": {"read": 50, "overwrite": 50}, "keys": {"distribution": "zipfian"}},
    "b": {"mix": {"read": 95, "overwrite": 5}, "keys": {"distribution": "zipfian"}},
    "c": {"mix": {"read": 100}, "keys": {"distribution": "zipfian"}},
    "d": {"mix": {"read": 95, "insert": 5}, "keys": {"distribution": "latest"}},
    "e": {"mix": {"scan": 95, "insert": 5}, "keys": {"distribution": "zipfian"}, "scan_rows": 100},
    "f": {"mix": {"read": 50, "read_modify_write": 50}, "keys": {"distribution": "zipfian"}},
}


def problem(**fields: Any) -> dict[str, str]:  # noqa: ANN401 -- a workload's fields
    """Return the one broken rule."""
    with pytest.raises(ValidationError) as caught:
        Workload(**fields)
    (error,) = caught.value.errors()
    (broken,) = error["ctx"]["broken"]
    found: dict[str, str] = broken
    return found


@pytest.mark.parametrize("letter", YCSB)
def test_ycsb_s_core_workloads_can_be_written_down(letter: str) -> None:
    """Issue 4 promises A to F as presets; 1,000-byte records as YCSB's ten fields of 100."""
    described = {"record": {"shape": "blob", "value_bytes": 1_000}, "records": 1_000, **YCSB[letter]}
    workload = Workload.model_validate(described)
    assert workload.mix.total == 100
    assert Workload.model_validate_json(workload.model_dump_json()) == workload


def test_seed_5_s_four_tests_can_be_written_down() -> None:
    """Read, insert into an empty database, overwrite, update a few fields; of products."""
    for mix, records in (({"read": 1}, 1_000), ({"insert": 1}, 0), ({"overwrite": 1}, 1_000), ({"update": 1}, 1_000)):
        Workload.model_validate({"mix": mix, "records": records, "record": {"shape": "product"}})


def test_a_mix_without_any_operation_is_refused() -> None:
    """It would offer nothing and report a store that is infinitely fast."""
    with pytest.raises(ValidationError, match="Give at least one operation a weight above 0"):
        Mix()


@pytest.mark.parametrize(
    ("fields", "at", "remedy"),
    [
        ({"records": 0}, "records", "Say how many records are preloaded"),
        ({"mix": {"update": 1}}, "mix.update", 'Use overwrite, or set record.shape to "product".'),
        ({"mix": {"insert": 1}, "keys": {"distribution": "latest"}}, "keys", "Remove it"),
        ({"records": 5, "keys": {"distribution": "hot", "hot_keys": 5}}, "keys.hot_keys", "Lower it"),
        ({"scan_rows": 7}, "scan_rows", "add scan to the mix"),
        ({"records": 10_000_000, "record": {"shape": "blob", "value_bytes": 2_000}}, "records", "Lower records"),
    ],
)
def test_a_broken_rule_names_the_field_and_the_way_out(fields: dict[str, Any], at: str, remedy: str) -> None:
    """Refused before anything is created."""
    broken = problem(**fields)
    assert broken["at"] == at
    assert remedy in broken["remedy"]


@pytest.mark.parametrize(
    "fields",
    [
        {"mix": {"read": -1}},
        {"mix": {"read": float("inf")}},
        {"mix": {"delete": 1}},
        {"keys": {"distribution": "zipfian", "constant": 1}},
        {"keys": {"distribution": "uniform", "constant": 0.5}},
        {"record": {"shape": "product", "value_bytes": 10}},
        {"record": {"shape": "blob", "key_bytes": 36}},
    ],
)
def test_what_has_no_meaning_is_refused_where_it_stands(fields: dict[str, Any]) -> None:
    """A typo, or a field of another variant, must not be ignored."""
    with pytest.raises(ValidationError):
        Workload.model_validate(fields)


def refused(**fields: Any) -> list[str]:  # noqa: ANN401 -- a load's fields
    """Return pydantic's errors, field and message in one line each."""
    with pytest.raises(ValidationError) as error:
        ClosedLoad.model_validate(fields)
    return [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.value.errors()]


def phase_refused(**fields: Any) -> str:  # noqa: ANN401 -- a phase's fields
    """Return pydantic's error about a phase."""
    with pytest.raises(ValidationError) as error:
        Phase.model_validate({"name": "p", **fields})
    return str(error.value)


CLOSED = {"clients": 10, "duration_s": 60}


def most_events(writers: int = 10, answer_s: float = 1e-3, **fields: Any) -> int:  # noqa: ANN401 -- a load's fields
    """Return how many operations the load offers at most."""
    return ClosedLoad.model_validate({**CLOSED, **fields}).most_events(answer_s=answer_s, writers=writers)


def test_it_offers_at_most_what_the_fastest_store_answers() -> None:
    """10 clients for 60 s, 1 ms an answer: 600,000; with 0.37 s of pause between, 10 * 60 / 0.371 = 1,617.3 at most."""
    assert most_events() == 600_000
    assert most_events(answer_s=1e-4) == 6_000_000
    assert most_events(think_ms=370) == 1_618
    assert most_events(operations=1_000) == 1_000
    assert most_events(operations=700_000) == 600_000


def test_it_offers_at_most_what_its_writers_can() -> None:
    """However many clients a writer has: 100,000 a second each."""
    assert most_events(answer_s=1e-6, writers=1) == 60 * 100_000
    assert most_events(answer_s=1e-6, writers=3) == 3 * 60 * 100_000


@given(clients=st.integers(1, 200), more=st.integers(0, 10_000))
def test_a_number_of_operations_is_shared_out_evenly_and_whole(clients: int, more: int) -> None:
    """None is lost, and no client has two more than another."""
    load = ClosedLoad(clients=clients, duration_s=1, operations=clients + more)
    shares = [load.operations_of(client) or 0 for client in range(clients)]
    assert sum(shares) == clients + more
    assert max(shares) - min(shares) <= 1


def test_without_a_number_only_time_ends_a_client() -> None:
    """Throughput mode: a minute, as many as it takes."""
    assert ClosedLoad.model_validate(CLOSED).operations_of(3) is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**CLOSED, "operations": 9}, "is below clients (10)"),
        ({**CLOSED, "operations": MOST_OPERATIONS + 1}, "operations: "),
        ({**CLOSED, "think": "exponential"}, "has no effect without a pause"),
        ({**CLOSED, "clients": 0}, "clients: "),
        ({**CLOSED, "clients": 10_001}, "clients: "),
        ({**CLOSED, "duration_s": 0}, "duration_s: "),
        ({**CLOSED, "think_ms": -1}, "think_ms: "),
        ({"clients": 1}, "duration_s: Field required"),
    ],
)
def test_what_makes_no_load_is_refused(fields: dict[str, Any], said: str) -> None:
    """The plan's author learns it before ten clients, of which nine do nothing, have been measured."""
    assert said in " ".join(refused(**fields))


def test_a_phase_has_a_rate_or_clients() -> None:
    """Which of the two was meant nobody could tell."""
    assert "Give exactly one of load, closed and invoked" in phase_refused()
    assert "Remove one of the two" in phase_refused(closed=CLOSED, load=[{"rate_per_s": 1, "count": 1}])


def test_a_closed_phase_has_no_steps_and_lasts_as_long_as_it_says() -> None:
    """Everything that walks over steps walks over none."""
    phase = Phase.model_validate({"name": "p", "closed": {**CLOSED, "duration_s": 700}})
    assert (phase.steps, phase.length_s, phase.shortest_s, phase.slices) == ((), 700, 700, 2)
    assert phase.events_by(100) == 0
    assert not phase.uses_found_rate
    assert [window.to_s for window in phase.all_windows()] == [700]


def test_until_and_a_count_over_several_slices_are_refused() -> None:
    """A state that waits for a slice's turn cannot be told that there will be none."""
    until = {"relative_width": 0.1, "max_events": 100}
    assert "goes on at a rate, and closed has none" in phase_refused(closed=CLOSED, until=until)
    longer = {"clients": 1, "duration_s": SLICE_S + 1, "operations": 10}
    assert "ends the load early" in phase_refused(closed=longer)


FIRST_TEN_S = [{"name": "early", "from_s": 0, "to_s": 10}]


def test_fixed_windows_and_a_number_of_operations_are_refused() -> None:
    """1,000 operations that are done after 9.7 s would be 17/s in a window of a minute."""
    text = phase_refused(closed={**CLOSED, "operations": 1_000}, windows=FIRST_TEN_S)
    assert "the length of a phase with closed.operations is not" in text
    assert Phase.model_validate({"name": "p", "closed": CLOSED, "windows": FIRST_TEN_S}).windows


def test_windows_end_where_the_load_did() -> None:
    """A writer stops when it has offered all that a trial may keep; nothing was offered after that."""
    windows = [*FIRST_TEN_S, {"name": "cut", "from_s": 10, "to_s": 30}, {"name": "after", "from_s": 30, "to_s": 60}]
    phase = Phase.model_validate({"name": "p", "closed": CLOSED, "windows": windows})
    spans = {length_s: [(w.name, w.to_s) for w in phase.all_windows(length_s)] for length_s in (None, 60.0, 25.0, 10.0)}
    assert spans[None] == spans[60.0] == [("early", 10), ("cut", 30), ("after", 60)]
    assert spans[25.0] == [("early", 10), ("cut", 25)]
    assert spans[10.0] == [("early", 10)]
