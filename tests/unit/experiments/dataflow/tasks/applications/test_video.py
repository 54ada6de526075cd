"""Video analytics: what a made video shows comes out as labels, through real files, frames and images."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import av
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from stepbench.contracts.dataflow.dag import Parameter
from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskCall, find_maker, find_task
from stepbench.experiments.dataflow.tasks.applications.video.classifier import CLASSES, class_probabilities
from stepbench.experiments.dataflow.tasks.applications.video.frames import as_jpeg, truth_of

SMALL: dict[str, Parameter] = {
    "seconds": 6,
    "chunk_s": 2,
    "width": 160,
    "height": 120,
    "frames_per_s": 5,
    "kbit_per_s": 100,
}
CHUNK: dict[str, Parameter] = {"chunk_s": 2}


@pytest.fixture(scope="module")
def video() -> bytes:
    """Return a video of three chunks."""
    return find_maker("video.render")(SMALL, 7)


def run(
    task: str,
    inputs: Sequence[Any] = (),
    dag_input: bytes | None = None,
    parts: int = 0,
    parameters: Mapping[str, Parameter] = CHUNK,
) -> tuple[list[Any], Any]:
    """Run a task of the application; return what it passes on, and its result."""
    call = TaskCall({"before": inputs}, dag_input, parameters, "stage", 0, 1, {"after": parts} if parts else {}, 7)
    answer = find_task(f"video.{task}")(call)
    return list(answer.outputs.get("after", ())), answer.result


def shown(video: bytes, number: int) -> int | None:
    """Return what the file itself says that a chunk shows."""
    with av.open(io.BytesIO(video), "r") as file:
        return truth_of(file.metadata, number, 2)


def test_every_label_is_what_the_video_shows(video: bytes) -> None:
    """So a label that is wrong, or a chunk that is missing, means that the data did not come through."""
    chunks, _ = run("split", dag_input=video, parts=3)
    labels = []
    for chunk in chunks:
        frames, _ = run("extract", [chunk], parts=1)
        _, result = run("classify", frames)
        assert (result["right"], result["of"]) == (1, 1)
        labels += result["labels"]
    assert labels == [shown(video, number) for number in range(3)]


def test_a_frame_that_shows_another_digit_is_wrong(video: bytes) -> None:
    """Otherwise `right` would prove nothing."""
    chunks, _ = run("split", dag_input=video, parts=3)
    frames, _ = run("extract", [chunks[0]], parts=1)
    _, result = run("classify", [{**frames[0], "truth": (frames[0]["truth"] + 1) % 10}])
    assert result["right"] == 0


def test_chunks_are_videos_of_their_own_and_no_frame_is_lost(video: bytes) -> None:
    """By hand: three files of 2 s, of 5 frames each second."""
    chunks, _ = run("split", dag_input=video, parts=3)
    for chunk in chunks:
        with av.open(io.BytesIO(chunk["video"]), "r") as file:
            assert [float(frame.time) for frame in file.decode(video=0)] == pytest.approx([0.2 * n for n in range(10)])


def test_the_same_seed_makes_the_same_video(video: bytes) -> None:
    """Runs on two stores have one input."""
    assert find_maker("video.render")(SMALL, 7) == video
    assert find_maker("video.render")(SMALL, 8) != video


def test_a_frame_has_a_probability_of_each_class() -> None:
    """1,000, as published; they are probabilities."""
    noise = np.random.default_rng(1).integers(0, 256, (90, 120)).astype(np.uint8)
    probabilities = class_probabilities(noise)
    assert probabilities.shape == (CLASSES,)
    assert probabilities.sum() == pytest.approx(1, abs=1e-4)


def network(takes: Sequence[int | str]) -> bytes:
    """Return a network in ONNX: the mean of a picture's red is the score of class 1, of green 2, of blue 3."""
    weights = np.eye(int(takes[1]), CLASSES, 1, dtype=np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["picture"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "means",
        [helper.make_tensor_value_info("picture", TensorProto.FLOAT, takes)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(weights, "weights")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    body: bytes = made.SerializeToString()
    return body


@pytest.mark.parametrize("takes", [(1, 3, 64, 48), ("batch", 3, "height", "width")])
def test_a_network_of_ones_own_classifies_frames(takes: Sequence[int | str]) -> None:
    """In ONNX, as the stage's file; what it says of our digits is neither right nor wrong."""
    green = av.VideoFrame.from_ndarray(np.full((90, 120, 3), (0, 200, 0), np.uint8), format="rgb24")
    frame = {"image": as_jpeg(green), "number": 0, "truth": 5}
    call = TaskCall({"before": [frame]}, None, {}, "stage", 0, 1, {}, 7, {"model": network(takes)})
    result = find_task("video.classify")(call).result
    assert (result["labels"], result["right"]) == ([2], None)


def test_what_is_no_network_of_pictures_is_refused() -> None:
    """The row tells it, and the execution has failed."""
    frame = {"image": as_jpeg(av.VideoFrame(64, 64, "rgb24")), "number": 0, "truth": None}
    for model, said in ((b"no model", "cannot be loaded"), (network((1, 1, 28, 28)), "not one colour picture")):
        call = TaskCall({"before": [frame]}, None, {}, "stage", 0, 1, {}, 7, {"model": model})
        with pytest.raises(ApplicationError, match=said):
            find_task("video.classify")(call)


def test_of_a_video_of_others_nothing_is_right_or_wrong() -> None:
    """Nobody has said what it shows."""
    assert truth_of({"comment": "holiday"}, 0, 10) is None
    assert truth_of({}, 0, 10) is None
    assert truth_of({"comment": '{"digits": [1, 2], "chunk_s": 10}'}, 0, 20) is None  # it shows both


def test_a_chunk_may_be_a_part_of_what_shows_one_digit() -> None:
    """By hand: chunks 2 and 3 of 5 s are the second 10 s."""
    fields = {"comment": '{"digits": [4, 9], "chunk_s": 10}'}
    assert [truth_of(fields, number, 5) for number in range(5)] == [4, 4, 9, 9, None]


@pytest.mark.parametrize(
    ("dag_input", "parts", "refusal"),
    [
        (None, 3, "the DAG has none"),
        (b"no video", 3, "no video that FFmpeg reads"),
        ("made", 2, "has 3 chunks of 2 s, and after wants 2"),
    ],
    ids=["none", "other bytes", "other number"],
)
def test_what_cannot_be_split_is_said(video: bytes, dag_input: bytes | str | None, parts: int, refusal: str) -> None:
    """The plan's author has to match the fan-out with the video's length."""
    given = video if dag_input == "made" else dag_input
    assert not isinstance(given, str)
    with pytest.raises(ApplicationError, match=refusal):
        run("split", dag_input=given, parts=parts)
