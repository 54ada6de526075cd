"""Legend entries without what all curves share, one for the runs of one setting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.comparisons import estimate, trial, window

from stepbench.report.curves import DASHES, Legend, curve_of, cut_shared_words, legend_of
from stepbench.report.run import window_rows
from stepbench_charts import DASHES as DRAWN_DASHES

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary

WORDS = st.sampled_from(["etcd", "redis", "insert", "tls", "50", "1", "2,000", "0.5", "a_b", "r1"])
SEPARATORS = st.sampled_from(["-", "=", " ", ", ", " · ", "."])
NAMES = st.lists(st.tuples(WORDS, SEPARATORS), min_size=1, max_size=5).map(
    lambda parts: "".join(f"{word}{separator}" for word, separator in parts[:-1]) + parts[-1][0]
)


@pytest.mark.parametrize(
    ("names", "labels", "common"),
    [
        (["etcd-arrivals=constant", "etcd-arrivals=poisson"], ["constant", "poisson"], "etcd-arrivals"),
        (["etcd-arrivals=constant-1", "etcd-arrivals=poisson-2"], ["constant-1", "poisson-2"], "etcd-arrivals"),
        (["single-insert-50", "multi-insert-50"], ["single", "multi"], "insert-50"),
        (["local-insert-reconnect-1", "local-select-reconnect-1"], ["insert", "select"], "local-…-reconnect-1"),
        (["local-insert-50", "local-insert-100"], ["insert-50", "insert-100"], "local"),
        (["redis", "redis-tls"], ["redis", "redis-tls"], ""),
        (["rate 2,000", "rate 2,500"], ["rate 2,000", "rate 2,500"], ""),
        (["wait 0.5 long", "wait 0.7 long"], ["wait 0.5", "wait 0.7"], "long"),
        (["s3", "etcd"], ["s3", "etcd"], ""),
        (["s3"], ["s3"], ""),
        ([], [], ""),
    ],
)
def test_names_lose_the_words_that_all_share(names: list[str], labels: list[str], common: str) -> None:
    """No word is cut in two, and no label is empty or a number alone."""
    found = cut_shared_words(names)
    assert (list(found.texts), found.common) == (labels, common)


@settings(deadline=None)
@given(st.lists(NAMES, min_size=2, max_size=6, unique=True))
def test_labels_are_as_different_as_the_names_and_begin_and_end_at_words(names: list[str]) -> None:
    """A curve that is called like another one is a wrong answer; a part of a word is none."""
    labels = cut_shared_words(names).texts
    assert len(set(labels)) == len(names)
    for name, label in zip(names, labels, strict=True):
        at = name.index(label)
        assert label.strip() == label != ""
        assert re.search(r"[a-z]", label) or label == name or not all(re.search("[a-z]", each) for each in names)
        assert any(
            re.fullmatch(r"|.*[-= .,·]", name[:begin]) and re.fullmatch(r"|[-= .,·].*", name[begin + len(label) :])
            for begin in range(at, len(name))
            if name.startswith(label, begin)
        )


@settings(deadline=None)
@given(st.lists(NAMES, min_size=2, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_a_curve_has_one_label_in_whatever_order(names: list[str], rng: Any) -> None:  # noqa: ANN401 -- Hypothesis's
    """A plan in random order has the same figures."""
    labels = dict(zip(names, cut_shared_words(names).texts, strict=True))
    shuffled = rng.sample(names, len(names))
    assert list(cut_shared_words(shuffled).texts) == [labels[name] for name in shuffled]


def legend(*trials: TrialSummary) -> Legend:
    """Return the legend of all windows of some trials."""
    return legend_of([curve_of(row) for row in window_rows(trials)])


def point(store: str, repeat: int = 0, **values: Any) -> TrialSummary:  # noqa: ANN401 -- any JSON
    """Build a run of a point of a matrix, called as the planner calls it."""
    group = ".".join([store, *(f"{field}-{value}" for field, value in values.items())])
    matrix = {f"target.{field}": value for field, value in values.items()}
    run = f"{group}.r{repeat + 1}"
    return trial(run, window(estimate(1)), group=group, base=store, point=matrix, repeat=repeat, store=store)


def test_a_setting_that_alone_differs_is_the_label() -> None:
    """`dynamodb.batch_size-1.writers-2` is what the planner calls it; what all share is said once."""
    found = legend(*(point("dynamodb", batch_size=size, writers=2) for size in (1, 1_000)))
    assert found.labels == ("batch_size 1", "batch_size 1,000")
    assert found.common == "dynamodb, writers 2"
    assert found.text == "batch_size 1, batch_size 1,000 (common to all: dynamodb, writers 2)"


def test_stores_and_settings_that_both_differ_are_both_told() -> None:
    """Trials of one plan, each with a matrix of the same setting."""
    found = legend(*(point(store, batch_size=size) for store in ("s3", "dynamodb") for size in (1, 10)))
    assert found.labels == (
        "s3 · batch_size 1", "s3 · batch_size 10", "dynamodb · batch_size 1", "dynamodb · batch_size 10"
    )  # fmt: skip
    assert found.common == ""


def test_a_store_that_is_a_setting_goes_by_its_name() -> None:
    """`store etcd` says nothing more."""
    stores = [
        trial(store, window(estimate(1)), point={"target.store": store}, store=store, base="")
        for store in ("s3", "etcd")
    ]
    assert legend(*stores).labels == ("s3", "etcd")


def test_a_setting_without_a_short_value_goes_by_the_planner_s_name() -> None:
    """An object is no label."""
    filters = [{"target.filter": {"size": [size]}} for size in (1, 2)]
    runs = [trial(f"s3.filter-{n}", window(estimate(1)), point=each, base="s3") for n, each in enumerate(filters)]
    assert legend(*runs).labels == ("filter-0", "filter-1")


def test_the_runs_of_one_setting_are_one_entry_with_a_dash_for_each() -> None:
    """Six entries in six colours hid that there were two settings."""
    runs = [point("etcd", repeat, writers=writers) for repeat in range(3) for writers in (1, 4)]
    found = legend(*runs)
    assert found.labels == ("writers 1", "writers 4")
    assert found.repeated
    assert found.names == {
        "curve": [run.name for run in runs],
        "series": ["writers 1", "writers 4"] * 3,
        "dash": [0, 0, 1, 1, 2, 2],
    }
    assert found.captions[0] == "writers 1 · run 1"
    assert found.captions[-1] == "writers 4 · run 3"


@pytest.mark.parametrize(
    ("runs", "words"), [(DASHES, ", each with a dash of its own"), (DASHES + 1, " and take turns with 5 dashes")]
)
def test_a_caption_promises_each_run_a_dash_only_where_there_are_enough(runs: int, words: str) -> None:
    """From the sixth run on two of them look alike."""
    found = legend(*(point("etcd", repeat, writers=writers) for repeat in range(runs) for writers in (1, 4)))
    assert found.dashes == words


def test_windows_of_one_run_are_settings_of_their_own() -> None:
    """Before and after are what is compared: two colours, and without repeats a dash each."""
    found = legend(trial("etcd", window(estimate(1), "before"), window(estimate(2), "after")))
    assert (found.labels, found.common) == (("before", "after"), "etcd")
    assert found.names["curve"] == ["etcd · before", "etcd · after"]
    assert (found.names["dash"], found.repeated) == ([0, 1], False)


def test_two_matrices_that_vary_the_same_stay_apart() -> None:
    """Without names of their own their points have the same settings; the planner's names differ."""
    same: dict[str, Any] = {"point": {"writers": 1}, "base": ""}
    found = legend(
        trial("s3.writers-1", window(estimate(1)), **same), trial("s3-2.writers-1", window(estimate(1)), **same)
    )
    assert found.labels == ("s3", "s3-2")


def test_there_are_as_many_dashes_as_are_drawn() -> None:
    """A dash without a line would draw its curve solid."""
    assert len(DRAWN_DASHES) == DASHES


def test_a_legend_leaves_its_longest_label_the_room_that_it_takes() -> None:
    """Two labels that are cut short may read alike."""
    short, long = (
        legend(trial("a", window(estimate(1))), trial(name, window(estimate(1)))) for name in ("b", "b" * 40)
    )
    assert short.params["labels"] == ("a", "b")
    assert long.params["entry_px"] - short.params["entry_px"] > 39 * 6  # a letter of 12 px is about half as wide
