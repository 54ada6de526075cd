"""
The maker `learning.digits`: the digits that scikit-learn ships, enlarged.

Each row is one of the 1,797 images of 8 by 8 pixels, turned by up to 12°, made larger or smaller by up to 10 %, moved
by up to 2 pixels, and sampled at 28 by 28 pixels, bilinearly; then noise; by the seed. The first six sevenths of the
rows (MNIST's share) come from the first 1,500 images, the others from the rest: no test row has a sibling among the
training rows.

Images and labels are in the form of MNIST's files (IDX), any number of them one after the other, gzip-compressed or
not. So `cat train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz`
of MNIST is an input, too: the images of all files in their order, and the labels.

Source:
    Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits, UCI: the images. LeCun, Cortes and Burges,
    The MNIST database: the form of its files.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_digits

from stepbench.experiments.dataflow.tasks.application import ApplicationError, number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
