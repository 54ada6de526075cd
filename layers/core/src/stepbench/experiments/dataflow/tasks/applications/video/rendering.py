"""
A video that is made: each chunk shows a digit before a drifting pattern, and the file says which.

The digits are small pictures, which the classifier looks for, too.
"""

from __future__ import annotations

import io
import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import av
import numpy as np

from stepbench.experiments.dataflow.tasks.application import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stepbench.contracts.dataflow.dag import Parameter

ROWS, COLUMNS = 7, 5
_STROKES = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
DIGITS = len(_STROKES)
CHUNK_S = 10
TRUTH = "comment"
"""The field of the file's own that holds the digits, as JSON; a video of somebody else's has none such."""
_GLYPH_SHARE = 0.55
"""A digit's height as a share of the frame's."""
_DRIFT = 3
"""Pixels a frame."""


class _Plan(NamedTuple):
    seconds: int = 60
    chunk_s: int = CHUNK_S
    width: int = 320
    height: int = 240
    frames_per_s: int = 10


def render(parameters: Mapping[str, Parameter], seed: int) -> bytes:
    """
    Return a video (MP4, H.264), always the same.

    Parameters: `seconds` (60), `chunk_s` (10; a digit each), `width` (320), `height` (240), `frames_per_s` (10),
    `kbit_per_s` (400).
    """
    given = {name: int(number_of(parameters, name, default)) for name, default in _Plan._field_defaults.items()}
    plan, bits_per_s = _Plan(**given), int(number_of(parameters, "kbit_per_s", 400) * 1_000)
    random = np.random.default_rng(seed)
    digits = random.integers(0, DIGITS, -(-plan.seconds // plan.chunk_s)).tolist()
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        output.metadata[TRUTH] = json.dumps({"digits": digits, "chunk_s": plan.chunk_s})
        stream: Any = _add_stream(output, plan, bits_per_s)
        for pixels in _frames(plan, digits, random):
            frame = av.VideoFrame.from_ndarray(pixels, format="gray").reformat(format="yuv420p")
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return file.getvalue()


def glyph(digit: int, dot: int) -> NDArray[np.bool_]:
    """Return a digit's picture, shape (7 dot, 5 dot): True is ink."""
    small = np.array([[mark == "1" for mark in row] for row in _STROKES[digit].split()])
    return small.repeat(dot, axis=0).repeat(dot, axis=1)


def truth_of(metadata: Mapping[str, str], number: int, chunk_s: float) -> int | None:
    """Return the digit that a chunk of a video of ours shows, by the file's fields; None if it is another's."""
    try:
        truth = json.loads(metadata.get(TRUTH, ""))
        digit = int(truth["digits"][int(number * chunk_s // truth["chunk_s"])])
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return digit if truth["chunk_s"] % chunk_s == 0 else None


def _add_stream(output: Any, plan: _Plan, bits_per_s: int) -> Any:  # noqa: ANN401 -- PyAV's
    stream = output.add_stream("libx264", rate=plan.frames_per_s)
    stream.width, stream.height, stream.pix_fmt = plan.width, plan.height, "yuv420p"
    stream.bit_rate = bits_per_s
    stream.time_base = Fraction(1, plan.frames_per_s)
    # One thread, so that the same bytes come out; a key frame each second, where a chunk may begin.
    gop = str(plan.frames_per_s)
    stream.options = {"preset": "veryfast", "threads": "1", "g": gop, "keyint_min": gop, "sc_threshold": "0"}
    return stream


def _frames(plan: _Plan, digits: list[int], random: np.random.Generator) -> Iterator[NDArray[np.uint8]]:
    """Yield all frames, shape (height, width), grey."""
    pattern = _pattern(plan, random)
    dot = max(int(plan.height * _GLYPH_SHARE) // ROWS, 1)
    per_chunk = plan.chunk_s * plan.frames_per_s
    for number in range(plan.seconds * plan.frames_per_s):
        chunk, within = divmod(number, per_chunk)
        at = _DRIFT * number % plan.width
        frame = pattern[:, at : at + plan.width].copy()
        ink = glyph(digits[chunk], dot)
        # Along a small circle around the centre: no two frames of a chunk are the same.
        angle = 2 * np.pi * within / per_chunk
        top = (plan.height - ROWS * dot) // 2 + round(dot / 2 * np.sin(angle))
        left = (plan.width - COLUMNS * dot) // 2 + round(dot / 2 * np.cos(angle))
        frame[top : top + ink.shape[0], left : left + ink.shape[1]][ink] = 235
        yield frame


def _pattern(plan: _Plan, random: np.random.Generator) -> NDArray[np.uint8]:
    """Return dark clouds with some grain, twice side by side, so that they can drift."""
    coarse = random.integers(16, 110, (plan.height // 16 + 1, plan.width // 16 + 1))
    clouds = coarse.repeat(16, axis=0).repeat(16, axis=1)[: plan.height, : plan.width]
    grain = random.integers(0, 24, clouds.shape)
    return np.tile((clouds + grain).astype(np.uint8), 2)
