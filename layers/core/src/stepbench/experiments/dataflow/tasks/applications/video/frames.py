"""
The tasks `video.split` and `video.extract`, and frames as JPEG.

A video's packets are put, as they are, in files of their own; of each such chunk the frame is passed on that is most
like all the others.
"""

from __future__ import annotations

import io
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING, Any

import av
import numpy as np

from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall
from stepbench.experiments.dataflow.tasks.applications.video.rendering import CHUNK_S, truth_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def split(call: TaskCall) -> TaskAnswer:
    """
    Cut the video into chunks that begin at the first key frame of each `chunk_s` seconds (10); its sound is left out.

    Raises:
        ApplicationError: it has another number of chunks than the DAG has tasks for them, or it is no video.
    """
    content, chunk_s = call.own_input("video.split", made_by="video.render"), call.number("chunk_s", CHUNK_S)
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
