"""Find out where the process runs, as far as that is known: credentials, task, zone, own address, memory."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import RecordsUnavailableError
from stepbench.records.storage import layout
from stepbench.wire.http1 import MalformedHttpError
from stepbench.wire.http1.download import DownloadRefusedError, fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.records.storage.receiver_paths import ReceiverTable

CREDENTIALS_HOST = "http://169.254.170.2"
"""The host that gives a Fargate task its role's credentials; the path is in its environment."""
_ATTEMPTS, _PAUSE_S, _LIMIT_S = 3, 0.5, 3.0
_ELSEWHERE = ("192.0.2.1", 9)
"""An address of TEST-NET-1 (RFC 5737), to which the default route leads. Nothing is sent there."""


class TaskPlace(NamedTuple):
    """A Fargate task's ARN and zone; empty outside of Fargate."""

    task: str = ""
    zone: str = ""


def with_credentials(environ: Mapping[str, str], host: str = CREDENTIALS_HOST) -> dict[str, str]:
    """
    Return the environment with a Fargate task's credentials, or as it is where it has some, or names none.

    Raises:
        RecordsUnavailableError: they are not given; without them nothing can be stored.
    """
    path = environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    if not path or environ.get("AWS_ACCESS_KEY_ID"):
        return dict(environ)
    given = _fetch_json(f"{host}{path}")
    if given is None:
        message = "the task's credentials could not be read from the container credentials endpoint"
        raise RecordsUnavailableError(message)
    names = {
        "AccessKeyId": "AWS_ACCESS_KEY_ID",
        "SecretAccessKey": "AWS_SECRET_ACCESS_KEY",
        "Token": "AWS_SESSION_TOKEN",
    }
    return {**environ, **{name: str(given.get(key, "")) for key, name in names.items()}}


def find_task(environ: Mapping[str, str]) -> TaskPlace:
    """Return what the task's metadata endpoint (version 4) answers, if the environment names one."""
    uri = environ.get("ECS_CONTAINER_METADATA_URI_V4")
    answer = _fetch_json(f"{uri}/task") if uri else None
    if answer is None:
        return TaskPlace()
    return TaskPlace(str(answer.get("TaskARN", "")), str(answer.get("AvailabilityZone", "")))


def own_address() -> str:
    """Return the address of the network interface that the default route goes by; "" if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_ELSEWHERE)
        except OSError:
            return ""
        return str(asking.getsockname()[0])


def peak_memory_bytes() -> int:
    """
    Return the process's largest resident set so far.

    By /proc where there is one: `ru_maxrss` of a process begins with what its parent had when it was started.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1_024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def make_sandbox_id() -> str:
    """Return a name that no other sandbox has."""
    return os.urandom(8).hex()


def _fetch_json(url: str) -> dict[str, Any] | None:
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)
        try:
            found: dict[str, Any] = json.loads(fetch(url, _LIMIT_S))
        except (OSError, MalformedHttpError, DownloadRefusedError, ValueError):
            continue
        return found
    return None


BEAT_S = 1.0


class Watcher:
    """
    Beats for one process, and calls `cancel` once when its trial is cancelled.

    A table that does not answer is no reason to stop: the rows themselves have their own way out.

    Args:
        table: nobody else may use it meanwhile.
        tag: the trial's.
        who: as the sign of life names the process.
        progress: returns its counters.
        cancel: is called on the watcher's thread.
        beat_s: how often.
    """

    def __init__(  # noqa: PLR0913 -- whose sign of life, where it goes, and what is called
        self,
        table: ReceiverTable,
        tag: str,
        who: str,
        progress: Callable[[], dict[str, int]],
        cancel: Callable[[], None],
        *,
        beat_s: float = BEAT_S,
    ) -> None:
        self._table = table
        self._tag = tag
        self._who = who
        self._progress = progress
        self._cancel = cancel
        self._beat_s = beat_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        """Beat once, and look at the flag, before anything is read; then go on by itself."""
        self._is_cancelled = self._look()
        self._thread.start()

    def end(self) -> None:
        """Beat for the last time."""
        self._ended.set()
        self._thread.join()
        self._beat(ended=True)

    def _watch(self) -> None:
        while not self._is_cancelled and not self._ended.wait(self._beat_s):
            self._is_cancelled = self._look()

    def _look(self) -> bool:
        self._beat()
        try:
            is_cancelled = self._table.flag(self._tag, layout.CANCELLED) is not None
        except RecordsUnavailableError:
            return False
        if is_cancelled:
            self._cancel()
        return is_cancelled

    def _beat(self, *, ended: bool = False) -> None:
        try:
            self._table.beat(self._tag, self._who, self._progress(), ended=ended)
        except RecordsUnavailableError:
            return  # no sign of life for a second
