"""
A trained network in place of the substitute: a file in ONNX, the form to which MXNet, PyTorch and TensorFlow export.

Its one input is a batch of one colour picture, shape (1, 3, height, width), as ImageNet's networks are trained on: red,
green and blue from 0 to 1, less their means, by their standard deviations. Its first output has a score, or a
probability, for each class. It runs on one thread, as much as a function of one core has.

Source:
    ONNX, operator set and files: onnx.ai. Means and deviations: MXNet, gluon.model_zoo.vision, pretrained models.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stepbench.experiments.dataflow.tasks.application import ApplicationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_MEANS = np.array((0.485, 0.456, 0.406), np.float32)
_DEVIATIONS = np.array((0.229, 0.224, 0.225), np.float32)
_SIDE = 224
"""Pixels of a picture's height and width, where the network takes any."""
_SUMS_TO_ONE = 1e-3


def class_probabilities(model: bytes, picture: Callable[[str, int, int], NDArray[np.uint8]]) -> NDArray[np.float32]:
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
    height, width = shape[2] or _SIDE, shape[3] or _SIDE
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
