"""
A video: the maker `video.render`, the tasks `video.split` and `video.extract`, and frames as JPEG.

Of a video that is made each chunk shows a digit before a drifting pattern, and the file says which; the digits are
small pictures, which the classifier looks for, too. A video's packets are put, as they are, in files of their own; of
each such chunk the frame is passed on that is most like all the others.
"""

from __future__ import annotations

import io
import json
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import av
import numpy as np

from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall, number_of

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


def split(call: TaskCall) -> TaskAnswer:
    """
    Cut the video into chunks that begin at the first key frame of each `chunk_s` seconds (10); its sound is left out.

    Raises:
        ApplicationError: it has another number of chunks than the DAG has tasks for them, or it is no video.
    """
    content, chunk_s = call.own_input("video.split", maker="video.render"), call.number("chunk_s", CHUNK_S)
    try:
        with av.open(io.BytesIO(content), "r") as video:
            values = [
                {"video": chunk, "number": number, "truth": truth_of(video.metadata, number, chunk_s)}
                for number, chunk in enumerate(_chunks(video, chunk_s))
            ]
    except av.FFmpegError as error:
        message = f"the DAG's input is no video that FFmpeg reads: {error}"
        raise ApplicationError(message) from error
    for consumer, parts in call.parts.items():
        if parts != len(values):
            message = f"the video has {len(values)} chunks of {chunk_s:g} s, and {consumer} wants {parts}: match them"
            raise ApplicationError(message)
    return TaskAnswer(dict.fromkeys(call.parts, values))


def _chunks(video: Any, chunk_s: float) -> Iterator[bytes]:  # noqa: ANN401 -- PyAV's
    """Yield each chunk as a file (MP4)."""
    stream = video.streams.video[0]
    packets: list[Any] = []
    number = 0
    for packet in video.demux(stream):
        if packet.dts is None:  # the end
            continue
        begun_s = float((packet.pts - (stream.start_time or 0)) * packet.time_base)
        if packet.is_keyframe and begun_s >= (number + 1) * chunk_s and packets:
            yield _file_of(packets, stream)
            packets, number = [], int(begun_s / chunk_s)
        packets.append(packet)
    if packets:
        yield _file_of(packets, stream)


def _file_of(packets: list[Any], template: Any) -> bytes:  # noqa: ANN401 -- PyAV's
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream_from_template(template)
        first = packets[0].pts
        for packet in packets:
            packet.stream = stream
            packet.pts -= first
            packet.dts -= first
            output.mux(packet)
    return file.getvalue()


_BINS = 32


def extract(call: TaskCall) -> TaskAnswer:
    """
    Decode all frames, and pass on the one whose histogram is nearest to the mean of all, as JPEG.

    Raises:
        ApplicationError: the chunk has no frame.
    """
    chunk = call.only_input()
    histograms = np.array([_histogram(frame) for frame in _decoded(chunk["video"])])
    if not len(histograms):
        message = f"chunk {chunk['number']} has no frame"
        raise ApplicationError(message)
    distances = ((histograms - histograms.mean(axis=0)) ** 2).sum(axis=1)
    place = int(distances.argmin())
    frame = next(islice(_decoded(chunk["video"]), place, None))
    value = {"image": as_jpeg(frame), "number": chunk["number"], "truth": chunk["truth"]}
    return call.answer(value)


def as_jpeg(frame: Any) -> bytes:  # noqa: ANN401 -- PyAV's
    """Return a frame as a JPEG image."""
    encoder: Any = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = frame.width, frame.height, "yuvj420p"
    encoder.time_base = Fraction(1, 1)
    image = frame.reformat(format="yuvj420p")
    image.pts, image.time_base = 0, Fraction(1, 1)
    return b"".join(bytes(packet) for packet in (*encoder.encode(image), *encoder.encode(None)))


def from_jpeg(
    image: bytes | memoryview, form: str, width: int | None = None, height: int | None = None
) -> NDArray[np.uint8]:
    """
    Return a JPEG image, scaled where a size is given.

    Args:
        image: the file.
        form: "gray" for shape (height, width), "rgb24" for (height, width, 3).
        width: in pixels; None for the image's own.
        height: likewise.
    """
    decoder: Any = av.CodecContext.create("mjpeg", "r")
    frames = [*decoder.decode(av.Packet(bytes(image))), *decoder.decode(None)]
    pixels: NDArray[np.uint8] = frames[0].to_ndarray(format=form, width=width, height=height)
    return pixels


def _decoded(file: bytes | memoryview) -> Iterator[Any]:
    with av.open(io.BytesIO(file), "r") as video:
        stream = video.streams.video[0]
        stream.codec_context.thread_count = 1  # as many as the function has processors are not ours to take
        yield from video.decode(stream)


def _histogram(frame: Any) -> NDArray[np.float64]:  # noqa: ANN401 -- PyAV's
    grey = frame.to_ndarray(format="gray")
    shares: NDArray[np.float64] = np.bincount(grey.reshape(-1) // (256 // _BINS), minlength=_BINS) / grey.size
    return shares
