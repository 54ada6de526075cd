"""The task `video.split`: a video's packets, as they are, in files of their own."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import av

from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall
from stepbench.experiments.dataflow.tasks.applications.video.rendering import CHUNK_S, truth_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def split(call: TaskCall) -> TaskAnswer:
    """
    Cut the video into chunks that begin at the first key frame of each `chunk_s` seconds (10); its sound is left out.

    Raises:
        ApplicationError: it has another number of chunks than the DAG has tasks for them, or it is no video.
    """
    if call.dag_input is None:
        message = "video.split reads the DAG's input, and the DAG has none: give it one, made by video.render"
        raise ApplicationError(message)
    chunk_s = call.number("chunk_s", CHUNK_S)
    try:
        with av.open(io.BytesIO(call.dag_input), "r") as video:
            chunks = list(_chunks(video, chunk_s))
            truths = [truth_of(video.metadata, number, chunk_s) for number in range(len(chunks))]
    except av.FFmpegError as error:
        message = f"the DAG's input is no video that FFmpeg reads: {error}"
        raise ApplicationError(message) from error
    values = [
        {"video": chunk, "number": number, "truth": truth}
        for number, (chunk, truth) in enumerate(zip(chunks, truths, strict=True))
    ]
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
