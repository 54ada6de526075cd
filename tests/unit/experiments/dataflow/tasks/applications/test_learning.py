"""Machine learning: the digits come out as an accuracy, through real components and real trees."""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
import pytest

from stepbench.contracts.dataflow.dag import Parameter
from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskCall, find_maker, find_task
from stepbench.experiments.dataflow.tasks.applications.learning.tasks import read_idx, write_idx

SMALL: dict[str, Parameter] = {"components": 20, "trees": 5}


@pytest.fixture(scope="module")
def digits() -> bytes:
    """Return 2,100 images, of which 300 are for the test."""
    return find_maker("learning.digits")({"rows": 2_100}, 7)


@pytest.fixture(scope="module")
def sets(digits: bytes) -> Any:  # noqa: ANN401 -- values
    """Return the training set and the test set, by the stages that are given them."""
    return run("pca", digits)[0]


def run(task: str, dag_input: bytes | None = None, number: int = 0, **inputs: list[Any]) -> tuple[Any, Any]:
    """Run a task of the application; return what it passes on to "train" or "forest", by consumer, and its result."""
    consumers = {"pca": {"train": 1, "forest": 1}, "train": {"forest": 1}, "forest": {}}
    call = TaskCall(inputs, dag_input, SMALL, task, number, 2, consumers[task], 7)
    answer = find_task(f"learning.{task}")(call)
    return {consumer: values[0] for consumer, values in answer.outputs.items()}, answer.result


def test_a_forest_recognises_digits_that_it_has_not_seen(digits: bytes, sets: Any) -> None:  # noqa: ANN401 -- values
    """
    Labels that are mixed up on the way would give a tenth; and more models than one are used.

    That two models of five trees recognise more than half is ours; the published accuracy is not told.
    """
    _, of_pca = run("pca", digits)
    trained = [run("train", number=number, pca=[sets["train"]]) for number in range(2)]
    _, result = run("forest", train=[outputs["forest"] for outputs, _ in trained], pca=[sets["forest"]])
    assert (of_pca["training_rows"], trained[0][1]["training_rows"]) == (1_800, 1_620)
    assert (result["of"], result["models"]) == (300, 2)
    assert result["right"] == round(result["accuracy"] * 300)
    assert result["accuracy"] > 0.5
    assert trained[0][0]["forest"]["model"] != trained[1][0]["forest"]["model"]


def test_a_training_is_the_same_each_time(sets: Any) -> None:  # noqa: ANN401 -- values
    """So that the accuracy on two stores can be one."""
    first, second = (run("train", pca=[sets["train"]])[0]["forest"] for _ in range(2))
    assert first == second


def test_wrong_labels_show(sets: Any) -> None:  # noqa: ANN401 -- values
    """Otherwise the accuracy would prove nothing."""
    outputs, _ = run("train", pca=[sets["train"]])
    wrong = {**sets["forest"], "labels": (sets["forest"]["labels"] + 1) % 10}
    _, result = run("forest", train=[outputs["forest"]], pca=[wrong])
    assert result["accuracy"] < 0.2


def test_the_same_seed_makes_the_same_digits(digits: bytes) -> None:
    """Runs on two stores have one input."""
    make = find_maker("learning.digits")
    assert make({"rows": 2_100}, 7) == digits
    assert make({"rows": 2_100}, 8) != digits


def test_the_digits_are_of_mnists_form_and_all_kinds(digits: bytes) -> None:
    """Ink on a dark ground in the middle, each of ten kinds about as often."""
    images, labels = read_idx(digits)
    assert images.shape == (2_100, 784)
    assert np.bincount(labels, minlength=10).min() > 150
    square = images.reshape(-1, 28, 28).mean(axis=0)
    assert square[10:18, 10:18].mean() > 2 * square[:2].mean()


def test_files_that_follow_each_other_are_read_as_one() -> None:
    """MNIST has four files, each compressed."""
    images = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    labels = np.array([7, 8, 9], np.uint8)
    files = [write_idx(images[:2]), write_idx(labels[:2]), write_idx(images[2:]), write_idx(labels[2:])]
    for data in (b"".join(files), b"".join(map(gzip.compress, files))):
        read_images, read_labels = read_idx(data)
        assert read_images.tolist() == images.reshape(3, 8).tolist()
        assert read_labels.tolist() == [7, 8, 9]


IMAGES = write_idx(np.zeros((2, 2, 2), np.uint8))


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"<html>not found</html>", "cannot be read as IDX"),
        (gzip.compress(IMAGES)[:-10], "cannot be read as IDX"),
        (IMAGES[:-1], "cannot be read as IDX"),
        (IMAGES + write_idx(np.zeros(3, np.uint8)), r"\(2, 2, 2\), \(3,\)"),
        (b"", "shapes"),
    ],
    ids=["another file", "half a file", "cut", "too many labels", "nothing"],
)
def test_a_file_that_is_no_such_file_is_refused(data: bytes, refusal: str) -> None:
    """`source` takes what the network gives."""
    with pytest.raises(ApplicationError, match=refusal):
        read_idx(data)


def test_the_forest_says_what_it_misses(sets: Any) -> None:  # noqa: ANN401 -- values
    """A DAG that lacks an edge is refused by nobody else."""
    with pytest.raises(ApplicationError, match="was given 0 and 1"):
        run("forest", pca=[sets["forest"]])
