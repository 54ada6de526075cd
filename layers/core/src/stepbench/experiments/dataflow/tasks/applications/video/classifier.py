"""
The task `video.classify`: probabilities of 1,000 classes for a frame.

A trained network is the stage's file `model` (see `network`). Without one a substitute stands in, of the cost of one: a
frame of 64 by 64 pixels, at 81 places, against 1,000 pictures is 332 million multiplications and additions; SqueezeNet
1.1 has 349 million. The first ten pictures are digits, the others noise of a fixed seed; the best place's correlation
is a class's score.

Source:
    Iandola et al. (2016), SqueezeNet; the count for version 1.1 is its repository's.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from stepbench.experiments.dataflow.tasks.application import TaskAnswer, TaskCall
from stepbench.experiments.dataflow.tasks.applications.video import network
from stepbench.experiments.dataflow.tasks.applications.video.frames import from_jpeg
from stepbench.experiments.dataflow.tasks.applications.video.glyphs import COLUMNS, DIGITS, ROWS, glyph

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL = "model"
CLASSES = 1_000
SIDE = 64
_DOT = 5
"""Pixels of a template's digit; a frame's digit is 55 % of its height, which is 35 of 64."""
_SHIFTS = range(-4, 5)
_SHARPNESS = 60.0
"""Score to logarithm of probability: a correlation that is 0.05 higher is 20 times as likely."""


def classify(call: TaskCall) -> TaskAnswer:
    """Classify the frame, and compare the label with what it shows, where that is known and a class of ours."""
    frame, model = call.only_input(), call.files.get(MODEL)
    if model is None:
        probabilities = class_probabilities(from_jpeg(frame["image"], "gray"))
    else:
        probabilities = network.class_probabilities(model, partial(from_jpeg, frame["image"]))
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
    return TaskAnswer({consumer: [value] * parts for consumer, parts in call.parts.items()}, result)


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
