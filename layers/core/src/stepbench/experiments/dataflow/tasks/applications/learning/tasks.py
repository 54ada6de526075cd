"""
The tasks of `learning`, and the maker of its input; each loads its own library.

`learning.digits`: the digits that scikit-learn ships, enlarged. Each row is one of the 1,797 images of 8 by 8 pixels,
turned by up to 12°, made larger or smaller by up to 10 %, moved by up to 2 pixels, and sampled at 28 by 28 pixels,
bilinearly; then noise; by the seed. The first six sevenths of the rows (MNIST's share) come from the first 1,500
images, the others from the rest: no test row has a sibling among the training rows.

Images and labels are in the form of MNIST's files (IDX), any number of them one after the other, gzip-compressed or
not. So `cat train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz`
of MNIST is an input, too: the images of all files in their order, and the labels.

`pca`: the images' components, learned from the training set and taken of both sets. `train`: LightGBM models of random
parts. `forest`: all of them together.

Source:
    Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits, UCI: the images. LeCun, Cortes and Burges,
    The MNIST database: the form of its files.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import lightgbm
    from numpy.typing import NDArray

    from stepbench.contracts.dataflow.dag import Parameter


_GZIP = b"\x1f\x8b"
_UBYTE = 8
_MAX_DIMENSIONS = 3


def write_idx(*arrays: NDArray[np.uint8]) -> bytes:
    """Return arrays as files, one after the other."""
    parts: list[bytes] = []
    for array in arrays:
        parts += [struct.pack(f">HBB{array.ndim}I", 0, _UBYTE, array.ndim, *array.shape), array.tobytes()]
    return b"".join(parts)


def read_idx(data: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """
    Return images, shape (n, pixels), and labels, shape (n,).

    Raises:
        ApplicationError: the data are no such files, or there are not as many labels as images.
    """
    try:
        # Compressed files that follow each other decompress to files that do.
        arrays = list(_arrays(gzip.decompress(data) if data.startswith(_GZIP) else data))
    except (struct.error, ValueError, EOFError, OSError, zlib.error) as error:
        message = f"the input cannot be read as IDX files: {error}"
        raise ApplicationError(message) from error
    images = [array.reshape(len(array), -1) for array in arrays if array.ndim == _MAX_DIMENSIONS]
    labels = [array for array in arrays if array.ndim == 1]
    if not images or sum(map(len, images)) != sum(map(len, labels)) or len({each.shape[1] for each in images}) > 1:
        shapes = ", ".join(str(array.shape) for array in arrays)
        message = f"the input's IDX files have shapes {shapes}: give images (n, rows, columns), and a label for each"
        raise ApplicationError(message)
    return np.concatenate(images), np.concatenate(labels)


def _arrays(data: bytes) -> Iterator[NDArray[np.uint8]]:
    at = 0
    while at < len(data):
        zero, kind, dimensions = struct.unpack_from(">HBB", data, at)
        if zero or kind != _UBYTE or not 1 <= dimensions <= _MAX_DIMENSIONS:
            message = f"at byte {at} is no head of a file of bytes"
            raise ValueError(message)
        shape = struct.unpack_from(f">{dimensions}I", data, at + 4)
        at += 4 + 4 * dimensions
        yield np.frombuffer(data, np.uint8, prod(shape), at).reshape(shape)
        at += prod(shape)


SIDE = 28
ROWS = 70_000
TRAINING_SHARE = 6 / 7
_SMALL = 8
_TRAINING_IMAGES = 1_500
_TURN, _SCALE, _SHIFT = np.deg2rad(12), 0.1, 2 / SIDE
_NOISE = 12
_AT_ONCE = 2_000


def make_digits(parameters: Mapping[str, Parameter], seed: int) -> bytes:
    """Return images and labels as IDX files. Parameters: `rows` (70,000)."""
    rows = int(number_of(parameters, "rows", ROWS))
    from sklearn.datasets import load_digits  # noqa: PLC0415 -- no task needs it

    originals = load_digits()
    random = np.random.default_rng(seed)
    training = round(rows * TRAINING_SHARE)
    chosen = np.concatenate(
        [
            random.integers(0, _TRAINING_IMAGES, training),
            random.integers(_TRAINING_IMAGES, len(originals.images), rows - training),
        ]
    )
    images = np.empty((rows, SIDE, SIDE), np.uint8)
    for first in range(0, rows, _AT_ONCE):
        part = chosen[first : first + _AT_ONCE]
        images[first : first + len(part)] = _enlarged(originals.images[part] * (255 / 16), random)
    return write_idx(images, originals.target[chosen].astype(np.uint8))


def _enlarged(small: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.uint8]:
    """Return images of shape (n, 8, 8) as such of (n, 28, 28), each distorted in its own way."""
    count = len(small)
    angle = random.uniform(-_TURN, _TURN, count)
    scale = random.uniform(1 - _SCALE, 1 + _SCALE, count)
    down, right = random.uniform(-_SHIFT, _SHIFT, (2, count))
    axis = (np.arange(SIDE) + 0.5) / SIDE - 0.5
    y, x = (each[None] for each in np.meshgrid(axis, axis, indexing="ij"))
    cos, sin = (np.cos(angle) / scale)[:, None, None], (np.sin(angle) / scale)[:, None, None]
    rows = (cos * y - sin * x - down[:, None, None] + 0.5) * _SMALL - 0.5
    columns = (sin * y + cos * x - right[:, None, None] + 0.5) * _SMALL - 0.5
    large = _sampled(small, rows, columns) + random.normal(0, _NOISE, (count, SIDE, SIDE))
    return large.clip(0, 255).astype(np.uint8)


def _sampled(
    images: NDArray[np.float64], rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return bilinear samples at places of shape (n, 28, 28), in pixels; beyond the edges is 0."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    rows, columns = (each.clip(-1, _SMALL - 1e-9) + 1 for each in (rows, columns))
    top, left = rows.astype(np.intp), columns.astype(np.intp)
    down, right = rows - top, columns - left
    image = np.arange(len(images))[:, None, None]
    above = padded[image, top, left] * (1 - right) + padded[image, top, left + 1] * right
    below = padded[image, top + 1, left] * (1 - right) + padded[image, top + 1, left + 1] * right
    sampled: NDArray[np.float64] = above * (1 - down) + below * down
    return sampled


COMPONENTS = 100
TEST_STAGE = "forest"
CLASSES = 10
TREES, LEAVES = 20, 31
VALIDATION_SHARE = 0.1


def pca(call: TaskCall) -> TaskAnswer:
    """
    Give the stage named by `test_stage` (`forest`) the test set, and every other the training set.

    Parameters: `components` (100); `test_rows`, the last ones (a seventh: MNIST's 10,000 of 70,000).

    Raises:
        ApplicationError: the DAG has no input, or too few rows in it.
    """
    from sklearn.decomposition import PCA  # noqa: PLC0415 -- the other tasks do without

    images, labels = read_idx(call.own_input("learning.pca", maker="learning.digits"))
    training = len(images) - int(call.number("test_rows", len(images) - round(len(images) * TRAINING_SHARE)))
    components = int(call.number("components", COMPONENTS))
    if not 0 < components <= min(training, images.shape[1]) or training >= len(images):
        message = (
            f"{training} training rows of {len(images)}, of {images.shape[1]} pixels, give no {components} components"
        )
        raise ApplicationError(message)
    pixels = images.astype(np.float32) / 255
    model: Any = PCA(components, svd_solver="covariance_eigh").fit(pixels[:training])
    rows: NDArray[np.float32] = model.transform(pixels).astype(np.float32)
    training_set = {"rows": rows[:training], "labels": labels[:training]}
    test_set = {"rows": rows[training:], "labels": labels[training:]}
    test_stage = call.parameters.get("test_stage", TEST_STAGE)
    outputs = {
        consumer: [test_set if consumer == test_stage else training_set] * count
        for consumer, count in call.parts.items()
    }
    explained = round(float(model.explained_variance_ratio_.sum()), 6)
    return TaskAnswer(outputs, {"training_rows": training, "components": components, "explained_variance": explained})


def train(call: TaskCall) -> TaskAnswer:
    """
    Train on a random 90 % of the rows, each task on its own, and validate on the other 10 %.

    Parameters: `trees` (20) of each class, `leaves` (31), `boosting` (`rf`: random forest; or `gbdt`), `threads` (1).
    """
    import lightgbm  # noqa: PLC0415 -- the maker, and the first task, do without

    data = call.only_input()
    rows, labels = data["rows"], data["labels"]
    order = np.random.default_rng((call.seed, call.task)).permutation(len(labels))
    validation, training = np.split(order, [round(len(order) * VALIDATION_SHARE)])
    model = lightgbm.train(
        _settings(call),
        lightgbm.Dataset(rows[training], labels[training], free_raw_data=True),
        num_boost_round=int(call.number("trees", TREES)),
    )
    accuracy = _share_right(_probabilities(model, rows[validation]), labels[validation])
    value = {"model": model.model_to_string(), "validation_accuracy": accuracy}
    return call.answer(value, {"training_rows": len(training), "validation_accuracy": round(accuracy, 6)})


def forest(call: TaskCall) -> TaskAnswer:
    """
    Average what all models say of the test set, and count how often that is right.

    Raises:
        ApplicationError: it was given no model, or not one test set.
    """
    import lightgbm  # noqa: PLC0415 -- as above

    values = [value for of_stage in call.inputs.values() for value in of_stage]
    models = [value for value in values if "model" in value]
    sets = [value for value in values if "rows" in value]
    if not models or len(sets) != 1:
        message = f"learning.forest wants models and one test set, and was given {len(models)} and {len(sets)}"
        raise ApplicationError(message)
    rows, labels = sets[0]["rows"], sets[0]["labels"]
    together = np.zeros((len(labels), CLASSES))
    for value in models:
        together += _probabilities(lightgbm.Booster(model_str=value["model"]), rows)
    accuracy = _share_right(together, labels)
    value = {"labels": together.argmax(axis=1).astype(np.uint8), "accuracy": accuracy}
    result = {
        "accuracy": round(accuracy, 6),
        "right": round(accuracy * len(labels)),
        "of": len(labels),
        "models": len(models),
        "validation_accuracy": [round(float(each["validation_accuracy"]), 6) for each in models],
    }
    return call.answer(value, result)


def _settings(call: TaskCall) -> dict[str, Any]:
    return {
        "objective": "multiclass",
        "num_class": CLASSES,
        "boosting": str(call.parameters.get("boosting", "rf")),
        "num_leaves": int(call.number("leaves", LEAVES)),
        "bagging_freq": 1,
        "bagging_fraction": 0.7,
        "feature_fraction": 0.3,
        "num_threads": int(call.number("threads", 1)),
        "seed": (call.seed + call.task) % 2**31,
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


def _probabilities(model: lightgbm.Booster, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return each row's probabilities, shape (n, 10)."""
    probabilities: NDArray[np.float64] = np.asarray(model.predict(rows, num_threads=1))
    return probabilities


def _share_right(probabilities: NDArray[np.float64], labels: NDArray[np.uint8]) -> float:
    return float((probabilities.argmax(axis=1) == labels).mean())
