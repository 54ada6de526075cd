from __future__ import annotations

import itertools
import uuid
from typing import Any

import numpy as np
import pytest
import scipy

from stepbench.contracts.workload import Kind, Workload
from stepbench.workload.choices import (
    BLOCK,
    INSERTED,
    MAX_CLIENTS,
    SCRAMBLED_ITEMS,
    Choice,
    Choices,
    ClientStream,
    fnv_hash,
    scrambled_zipf,
    zeta,
    zipf_ranks,
)
from stepbench.workload.operations import RecordKeys
from stepbench.workload.products import mix_bits

CLIENT = ClientStream(phase=0, slice=0, client=0)
YCSB_D = {"mix": {"read": 95, "insert": 5}, "keys": {"distribution": "latest"}, "records": 1_000}


def workload(**fields: Any) -> Workload:  # noqa: ANN401 -- a workload's fields
    """Return a workload as a plan has it."""
    return Workload.model_validate(fields)


def choices(described: Workload, count: int, stream: ClientStream = CLIENT) -> list[Choice]:
    """Return the first so many."""
    made = Choices(described, stream)
    return [made.at(sequence) for sequence in range(count)]


def inserts(chosen: list[Choice]) -> list[int]:
    """Return the inserted records."""
    return [each.record for each in chosen if each.kind is Kind.INSERT]


def test_operations_come_in_proportion_to_their_weights() -> None:
    """Pearson's chi-squared over 20,480 draws; a kind of no weight never comes."""
    mix = {"read": 5, "overwrite": 2, "read_modify_write": 1.5, "scan": 1.5}
    counts = np.bincount([each.kind for each in choices(workload(mix=mix), 20 * BLOCK)], minlength=6)
    assert counts[Kind.INSERT] == counts[Kind.UPDATE] == 0
    expected = np.array([5, 2, 1.5, 1.5]) / 10 * 20 * BLOCK
    assert scipy.stats.chisquare(counts[[0, 2, 4, 5]], expected).pvalue > 0.001


def test_only_scans_ask_for_rows_each_number_alike() -> None:
    """YCSB E: 1 to 100 records, uniform; 4 sigma of the mean of some 10,000."""
    chosen = choices(workload(mix={"scan": 1, "read": 1}), 20 * BLOCK)
    assert {each.rows for each in chosen if each.kind is Kind.READ} == {0}
    rows = [each.rows for each in chosen if each.kind is Kind.SCAN]
    assert (min(rows), max(rows)) == (1, 100)
    assert np.mean(rows) == pytest.approx(50.5, abs=4 * 28.9 / np.sqrt(len(rows)))


def test_a_retried_attempt_offers_the_same_from_where_it_begins() -> None:
    """Inserts before that point count, though nobody asks for them any more."""
    whole = choices(workload(**YCSB_D), 4 * BLOCK)
    later = Choices(workload(**YCSB_D), CLIENT, first=2 * BLOCK + 17)
    assert [later.at(sequence) for sequence in range(2 * BLOCK + 17, 4 * BLOCK)] == whole[2 * BLOCK + 17 :]


def test_preparing_changes_nothing_and_asking_may_skip() -> None:
    """Choices that are made before the clock starts are those that would be made later."""
    whole = choices(workload(**YCSB_D), 3 * BLOCK)
    prepared = Choices(workload(**YCSB_D), CLIENT)
    prepared.prepare(3 * BLOCK)
    assert [prepared.at(sequence) for sequence in (0, BLOCK + 1, 3 * BLOCK - 1)] == [
        whole[sequence] for sequence in (0, BLOCK + 1, 3 * BLOCK - 1)
    ]


def test_blocks_that_are_done_with_are_dropped() -> None:
    """Ten minutes at full speed would hold hundreds of megabytes."""
    made = Choices(workload(), CLIENT)
    made.prepare(3 * BLOCK)
    made.at(2 * BLOCK)
    with pytest.raises(KeyError):
        made.at(0)
    assert len(made._blocks) == 1


def test_another_client_slice_phase_or_seed_offers_something_else_and_the_same_seed_the_same() -> None:
    """Repeats differ only by what the plan says; clients on the same keys in order would measure the store's locks."""
    others = [CLIENT._replace(**{field: 1}) for field in ("phase", "slice", "client")]
    offered = [choices(workload(seed=1), 200, stream) for stream in (CLIENT, *others)]
    assert all(other != offered[0] for other in (*offered[1:], choices(workload(seed=2), 200)))
    assert choices(workload(seed=1), 200) == offered[0]


def test_no_two_clients_insert_the_same_record() -> None:
    """Whatever the writer, slice or phase; nor one that is preloaded."""
    described = workload(mix={"insert": 1}, records=0)
    last = MAX_CLIENTS - 1
    streams = [ClientStream(*each) for each in itertools.product((0, 49), (0, 1_999), (0, 1, last))]
    made = [number for stream in streams for number in inserts(choices(described, 500, stream))]
    assert len(set(made)) == len(made) == 500 * len(streams)
    assert min(made) >= INSERTED
    assert max(made) < 2**62


def test_inserts_count_up_from_the_client_s_first() -> None:
    """So that a read can be aimed at them without looking."""
    made = inserts(choices(workload(**YCSB_D), 4 * BLOCK))
    assert made == list(range(CLIENT.first_insert, CLIENT.first_insert + len(made)))


def test_a_client_that_there_is_not_is_refused() -> None:
    """Its numbers would run into the next slice's."""
    with pytest.raises(ValueError, match="is not one of 16,384"):
        Choices(workload(), ClientStream(0, 0, MAX_CLIENTS))


@pytest.mark.parametrize(
    ("keys", "shares"),
    [
        ({"distribution": "uniform"}, [0.02] * 50),
        ({"distribution": "hot", "hot_keys": 3, "share": 0.6}, [0.2] * 3 + [0.4 / 7] * 7),
    ],
)
def test_keys_have_their_shares(keys: dict[str, Any], shares: list[float]) -> None:
    """By hand: all alike, or three records 60 % and seven the rest. Chi-squared over 20,480 draws."""
    chosen = choices(workload(records=len(shares), keys=keys), 20 * BLOCK)
    counts = np.bincount([each.record for each in chosen], minlength=len(shares))
    assert scipy.stats.chisquare(counts, np.array(shares) * 20 * BLOCK).pvalue > 0.001


def test_zipfian_keys_are_ycsb_s_over_all_clients() -> None:
    """One record is hot for everybody: 3.8 % of 20 clients' reads, and no other above 2.5 %."""
    described = workload(records=10_000, keys={"distribution": "zipfian"})
    chosen = [each for client in range(20) for each in choices(described, BLOCK, ClientStream(0, 0, client))]
    shares = np.sort(np.bincount([each.record for each in chosen], minlength=10_000) / len(chosen))
    assert shares[-1] == pytest.approx(0.0378, abs=0.006)
    assert shares[-2] < 0.025


def test_latest_reads_what_the_client_has_inserted_and_nothing_that_comes_later() -> None:
    """A read of a record that is not there yet would be a miss of our own making."""
    newest, ages = CLIENT.first_insert - 1, []
    for each in choices(workload(**YCSB_D), 20 * BLOCK):
        if each.kind is Kind.INSERT:
            newest = each.record
        elif each.record >= INSERTED:
            assert each.record <= newest
            ages.append(newest - each.record)
        else:
            assert 0 <= each.record < 1_000
    counts = np.bincount(ages)
    assert counts[0] > counts[1] > counts[2] > counts[10]


def test_latest_without_inserts_prefers_the_end_of_what_is_preloaded() -> None:
    """1 / zeta(1,000) = 12.9 % of reads are for the last record."""
    chosen = choices(workload(records=1_000, keys={"distribution": "latest"}), 20 * BLOCK)
    share = np.mean([each.record == 999 for each in chosen])
    assert share == pytest.approx(1 / np.sum(np.arange(1, 1_001) ** -0.99), abs=0.01)


def test_keys_have_the_length_asked_for_and_are_apart() -> None:
    """Hashed digits must not let two records fall together; ordered ones sort as the numbers do."""
    numbers = [0, 1, 2, 999, INSERTED, CLIENT._replace(client=5).first_insert]
    hashed = [*map(RecordKeys(workload(), "aaaaaaaaaa-0001").of, numbers)]
    assert ({len(key) for key in hashed}, len(set(hashed))) == ({59}, len(numbers))
    assert all(key.startswith("aaaaaaaaaa-0001/rec-") for key in hashed)
    assert hashed != sorted(hashed)
    ordered = [*map(RecordKeys(workload(key_order="ordered"), "aaaaaaaaaa-0001").of, numbers)]
    assert ordered == sorted(ordered)
    assert ordered[3] == "aaaaaaaaaa-0001/rec-00000000000003e7/".ljust(59, "x")


def test_a_rows_key_is_a_uuid_of_its_trial() -> None:
    """Two trials share no row, and every number has its own."""
    numbers = [0, 1, INSERTED, CLIENT._replace(client=5).first_insert]
    asked = workload(record={"shape": "row"}, mix={"read": 1, "insert": 1})
    keys = {uuid.UUID(RecordKeys(asked, tag).of(number)) for tag in ("a-0001", "a-0002") for number in numbers}
    assert len(keys) == 2 * len(numbers)
    assert len({str(key)[:18] for key in keys}) == len(numbers)


def test_bits_are_mixed_as_published() -> None:
    """SplitMix64 from state 0 gives 0xE220A8397B1DCDAF first: the mix of the golden gamma."""
    assert mix_bits(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF


DRAWS = 400_000


def draws(items: int, constant: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Draw ranks among so many items; seeded."""
    return zipf_ranks(np.random.default_rng(7).random(DRAWS), np.array(items), constant)


def test_zeta_is_ycsb_s_published_constant() -> None:
    """`ZETAN` in YCSB's ScrambledZipfianGenerator: ten billion terms, which nobody wants to add here."""
    assert float(zeta(np.array(1e10), 0.99)) == pytest.approx(26.46902820178302, rel=1e-9)


@pytest.mark.parametrize("constant", [0.1, 0.5, 0.99])
def test_zeta_is_the_sum(constant: float) -> None:
    """Before, at and after the terms that are added one by one."""
    items = np.array([1, 2, 511, 512, 513, 1_000, 100_000])
    expected = [np.sum(np.arange(1, n + 1) ** -constant) for n in items.tolist()]
    assert zeta(items.astype(np.float64), constant).tolist() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("items", "constant"), [(1_000, 0.99), (100_000, 0.99), (1_000, 0.5), (SCRAMBLED_ITEMS, 0.99)])
def test_the_two_first_ranks_have_exactly_their_probability(items: int, constant: float) -> None:
    """1 / zeta and 2^-constant / zeta; 4 sigma of 400,000 draws."""
    ranks = draws(items, constant)
    total = float(zeta(np.array(float(items)), constant))
    for rank in (0, 1):
        expected = (rank + 1) ** -constant / total
        assert abs(np.mean(ranks == rank) - expected) < 4 * np.sqrt(expected / DRAWS)


@pytest.mark.parametrize(("items", "constant"), [(1_000, 0.99), (100_000, 0.99), (1_000, 0.5)])
def test_gray_s_approximation_stays_close_to_the_law(items: int, constant: float) -> None:
    """The share of draws up to each rank differs from the exact one by less than 2.5 %; an off-by-one by more."""
    ranks = draws(items, constant)
    exact = np.cumsum(np.arange(1, items + 1) ** -constant)
    exact /= exact[-1]
    for upto in (1, 2, 10, 100, items // 2, items):
        assert np.mean(ranks < upto) == pytest.approx(exact[upto - 1], abs=0.025)
    assert ranks.min() == 0
    assert ranks.max() < items


@pytest.mark.parametrize("items", [1, 2, 3])
def test_few_items_are_all_drawn_and_nothing_else(items: int) -> None:
    """The closed form divides by nothing at two."""
    ranks = draws(items, 0.99)
    exact = np.arange(1, items + 1) ** -0.99
    shares = np.bincount(ranks, minlength=items) / DRAWS
    assert shares.tolist() == pytest.approx((exact / exact.sum()).tolist(), abs=0.005)


def test_each_draw_may_be_among_its_own_number_of_items() -> None:
    """`latest` draws from ever more."""
    items = np.repeat([1, 10, 1_000], 1_000)
    uniform = np.tile(np.random.default_rng(7).random(1_000), 3)
    together = zipf_ranks(uniform, items, 0.99)
    apart = [zipf_ranks(uniform[:1_000], np.array(n), 0.99) for n in (1, 10, 1_000)]
    assert together.tolist() == np.concatenate(apart).tolist()


def by_hand(number: int) -> int:
    """Hash by FNV-1a as YCSB's `fnvhash64` does, in Python's integers."""
    found = 0xCBF29CE484222325
    for _ in range(8):
        found = (found ^ (number & 0xFF)) * 1_099_511_628_211 % 2**64
        number >>= 8
    return abs(found - 2**64 if found >= 2**63 else found)


def test_the_hash_is_ycsb_s() -> None:
    """So that the same ranks are hot there and here."""
    numbers = [0, 1, 255, 256, 123_456_789, SCRAMBLED_ITEMS - 1]
    assert fnv_hash(np.array(numbers)).tolist() == [by_hand(number) for number in numbers]


def test_the_hottest_record_is_as_hot_among_many_as_among_few() -> None:
    """1 / 26.47 = 3.78 % belong to rank 0, to which a small table adds some of the others; and not to record 0."""
    uniform = np.random.default_rng(7).random(DRAWS)
    for records, extra in ((100_000, 0.001), (1_000, 0.004)):
        counts = np.bincount(scrambled_zipf(uniform, records, 0.99), minlength=records)
        assert counts.size == records
        hottest = by_hand(0) % records
        assert counts.argmax() == hottest != 0
        assert 0.0378 - 0.0015 < counts[hottest] / DRAWS < 0.0378 + 0.0015 + extra


def test_the_hot_records_are_scattered() -> None:
    """Neighbours on one page or partition would be another experiment: of the 10 hottest, no half holds less than 2."""
    counts = np.bincount(scrambled_zipf(np.random.default_rng(7).random(DRAWS), 10_000, 0.99), minlength=10_000)
    hottest = np.argsort(counts)[-10:]
    assert 2 <= np.count_nonzero(hottest < 5_000) <= 8
