"""
The task `video.classify`: probabilities of 1,000 classes for a frame.

A trained network is the stage's file `model`, in ONNX, the form to which MXNet, PyTorch and TensorFlow export. Its one
input is a batch of one colour picture, shape (1, 3, height, width), as ImageNet's networks are trained on: red, green
and blue from 0 to 1, less their means, by their standard deviations. Its first output has a score, or a probability,
for each class. It runs on one thread, as much as a function of one core has.

Without a model a substitute stands in, of the cost of one: a frame of 64 by 64 pixels, at 81 places, against 1,000
pictures is 332 million multiplications and additions; SqueezeNet 1.1 has 349 million. The first ten pictures are
digits, the others noise of a fixed seed; the best place's correlation is a class's score.

Source:
    Iandola et al. (2016), SqueezeNet; the count for version 1.1 is its repository's. ONNX, operator set and files:
    onnx.ai. Means and deviations: MXNet, gluon.model_zoo.vision, pretrained models.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall
from stepbench.experiments.dataflow.tasks.applications.video.frames import COLUMNS, DIGITS, ROWS, from_jpeg, glyph

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

MODEL = "model"
CLASSES = 1_000
SIDE = 64
_DOT = 5
"""Pixels of a template's digit; a frame's digit is 55 % of its height, which is 35 of 64."""
_SHIFTS = range(-4, 5)
_SHARPNESS = 60.0
"""Score to logarithm of probability: a correlation that is 0.05 higher is 20 times as likely."""
_MEANS = np.array((0.485, 0.456, 0.406), np.float32)
_DEVIATIONS = np.array((0.229, 0.224, 0.225), np.float32)
_NETWORK_SIDE = 224
"""Pixels of a picture's height and width, where the network takes any."""
_SUMS_TO_ONE = 1e-3


def classify(call: TaskCall) -> TaskAnswer:
    """Classify the frame, and compare the label with what it shows, where that is known and a class of ours."""
    frame, model = call.only_input(), call.files.get(MODEL)
    if model is None:
        probabilities = class_probabilities(from_jpeg(frame["image"], "gray"))
    else:
        probabilities = _network_probabilities(model, partial(from_jpeg, frame["image"]))
    label = int(probabilities.argmax())
    right = None if frame["truth"] is None or model is not None else int(label == frame["truth"])
    result = {
        "chunks": [frame["number"]],
        "labels": [label],
        "probabilities": [round(float(probabilities[label]), 4)],
        "right": right,
        "of": 1,
    }
    value = {"probabilities": probabilities, "number": frame["number"], "truth": frame["truth"]}
    return call.answer(value, result)


def class_probabilities(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the probability of each class, shape (1000,), of a picture of shape (height, width)."""
    scores = (_templates() @ _places(_squared(grey))).max(axis=1)
    weights = np.exp(_SHARPNESS * (scores - scores.max()))
    probabilities: NDArray[np.float32] = (weights / weights.sum()).astype(np.float32)
    return probabilities


def _squared(grey: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the middle square of a picture, SIDE pixels wide, by averages of areas."""
    side = min(grey.shape)
    top, left = (grey.shape[0] - side) // 2, (grey.shape[1] - side) // 2
    square = grey[top : top + side, left : left + side].astype(np.float32)
    edges = np.arange(SIDE) * side // SIDE
    sums = np.add.reduceat(np.add.reduceat(square, edges, axis=0), edges, axis=1)
    sizes = np.diff(np.append(edges, side))
    averages: NDArray[np.float32] = (sums / np.outer(sizes, sizes)).astype(np.float32)
    return averages


def _places(square: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the picture at all places, one a column, each of mean 0 and length 1."""
    centred = square - square.mean()
    centred /= np.linalg.norm(centred) or 1.0
    shifted = [np.roll(centred, (down, right), axis=(0, 1)).reshape(-1) for down in _SHIFTS for right in _SHIFTS]
    return np.stack(shifted, axis=1)


@cache
def _templates() -> NDArray[np.float32]:
    """Return all templates, one a row: a sandbox makes them once, as it would load a model."""
    templates = np.random.default_rng(0).standard_normal((CLASSES, SIDE * SIDE), dtype=np.float32)
    top, left = (SIDE - ROWS * _DOT) // 2, (SIDE - COLUMNS * _DOT) // 2
    for digit in range(DIGITS):
        picture = np.zeros((SIDE, SIDE), np.float32)
        picture[top : top + ROWS * _DOT, left : left + COLUMNS * _DOT] = glyph(digit, _DOT)
        templates[digit] = picture.reshape(-1)
    templates -= templates.mean(axis=1, keepdims=True)
    templates /= np.linalg.norm(templates, axis=1, keepdims=True)
    return templates


def _network_probabilities(model: bytes, picture: Callable[[str, int, int], NDArray[np.uint8]]) -> NDArray[np.float32]:
    """
    Return the probability of each class, shape (classes,).

    Args:
        model: the file.
        picture: returns the frame of a form, a width and a height, as `frames.from_jpeg` does.

    Raises:
        ApplicationError: it is no model, or none that takes such a picture.
    """
    session = _session(model)
    (taken, *others) = session.get_inputs()
    shape = [size if isinstance(size, int) else None for size in taken.shape]
    if others or len(shape) != len("NCHW") or shape[1] not in {3, None}:
        message = f"the model takes {[each.shape for each in session.get_inputs()]}, and not one colour picture"
        raise ApplicationError(message)
    height, width = shape[2] or _NETWORK_SIDE, shape[3] or _NETWORK_SIDE
    colours = picture("rgb24", width, height).astype(np.float32) / 255
    batch = ((colours - _MEANS) / _DEVIATIONS).transpose(2, 0, 1)[np.newaxis]
    scores = np.asarray(session.run(None, {taken.name: batch})[0], np.float32).reshape(-1)
    if (scores >= 0).all() and abs(float(scores.sum()) - 1) < _SUMS_TO_ONE:
        return scores
    weights = np.exp(scores - scores.max())
    probabilities: NDArray[np.float32] = (weights / weights.sum()).astype(np.float32)
    return probabilities


@lru_cache(maxsize=1)
def _session(model: bytes) -> Any:  # noqa: ANN401 -- ONNX Runtime's
    """Return the loaded network: a sandbox loads it once."""
    import onnxruntime  # noqa: PLC0415 -- tasks without a model need not load it

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        message = f"the model cannot be loaded: {error}"
        raise ApplicationError(message) from error
