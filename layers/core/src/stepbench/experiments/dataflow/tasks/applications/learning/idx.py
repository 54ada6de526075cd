"""
Images and labels in the form of MNIST's files (IDX), any number of them one after the other, gzip-compressed or not.

So `cat train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz` of
MNIST is an input: the images of all files in their order, and the labels.

Source:
    LeCun, Cortes and Burges, The MNIST database; the form is described there.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from stepbench.experiments.dataflow.tasks.application import ApplicationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

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
        plain = _unpacked(data)
        arrays = list(_arrays(plain))
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


def _unpacked(data: bytes) -> bytes:
    """Return the files without compression: files that follow each other decompress to such."""
    return gzip.decompress(data) if data.startswith(_GZIP) else data


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
