"""
What Lambda's sandboxes are made of in whichever emulator: layers, environment, and the lines that Lambda logs of them.

A layer is unpacked and compiled when it is deployed, and reused by the emulators after it. Unpacked when the first
sandbox asks for it, into a folder that goes with the emulator, it would be compiled there by what imports it first:
eight seconds of the first trial after each start. On Lambda a layer is in place once its function is deployed.

The shims load this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import queue
import select
import shutil
import subprocess
import tempfile
import threading
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


LAMBDAS = {"PATH": "/var/lang/bin:/usr/local/bin:/usr/bin:/bin:/opt/bin", "TZ": ":UTC", "LANG": "C.UTF-8"}
"""Lambda's own, and nothing of the host's. (Its LANG is en_US.UTF-8, which not every machine has.)"""


def base_environment() -> dict[str, str]:
    """Return what a sandbox has whatever its function: Lambda's own, and the folder over which it mounts its /tmp."""
    folder = Path(tempfile.gettempdir(), "tmp")
    folder.mkdir(parents=True, exist_ok=True)
    return {**LAMBDAS, "TMPDIR": str(folder)}


def module_path(code: str, layers: Iterable[Path]) -> str:
    """
    Return PYTHONPATH for a function: its code, then its layers in the order in which Lambda finds their modules.

    Lambda unpacks layers over each other into /opt, so a later layer wins; here each has a folder of its own, shared
    by all functions that use it, so the last comes first.

    Args:
        code: the folder of the function's code.
        layers: the folders of its layers, in the order of its configuration.
    """
    roots = [layer / "python" for layer in reversed(list(layers))]
    paths = [path for root in roots for path in (*sorted(root.glob("lib/python3*/site-packages")), root)]
    return os.pathsep.join([code, *map(str, paths)])


OPT, NODE = "STEPBENCH_OPT", "STEPBENCH_NODE"
"""
Variables with the folder that a sandbox has to show as /opt, and with the Node.js that stands for Lambda's;
`lambda_sandbox.py` takes them away again.
"""
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"


def search_paths(
    runtime: str, code: str, layers: list[Path], own: Mapping[str, str], folders: LayerFolders
) -> dict[str, str]:
    """
    Return where a function's sandbox finds its modules, libraries and interpreter, and what it has at /opt.

    Args:
        runtime: as Lambda names it; of Python, or of Node.js.
        code: the folder of the function's code.
        layers: the folders of its layers, in the order of its configuration.
        own: the function's own variables; its PYTHONPATH or NODE_PATH counts after Lambda's.
        folders: makes one folder of several, for functions that look there: with a wrapper, or of Node.js.
    """
    node = runtime.startswith("nodejs")
    name, path = ("NODE_PATH", node_path(runtime, layers)) if node else ("PYTHONPATH", module_path(code, layers))
    paths = {
        name: os.pathsep.join(filter(None, [path, own.get(name)])),
        "LD_LIBRARY_PATH": library_path(layers),
        **({NODE: shutil.which("node") or ""} if node else {}),
    }
    return {**paths, OPT: str(folders.merged(layers))} if layers and (node or own.get(WRAPPER)) else paths


def node_path(runtime: str, layers: Iterable[Path]) -> str:
    """Return NODE_PATH for a function: of its layers what they have for its version, then for any, the last first."""
    version = runtime.removesuffix(".x").removeprefix("nodejs")
    roots = [layer / "nodejs" for layer in reversed(list(layers))]
    kinds = [[root / f"node{version}/node_modules" for root in roots], [root / "node_modules" for root in roots]]
    return os.pathsep.join(str(folder) for kind in kinds for folder in kind if folder.is_dir())


def library_path(layers: Iterable[Path]) -> str:
    """Return LD_LIBRARY_PATH for a function: what Lambda has in /opt/lib, from the last layer to the first."""
    return os.pathsep.join(str(layer / "lib") for layer in reversed(list(layers)) if (layer / "lib").is_dir())


class Report(NamedTuple):
    """
    What Lambda reports of an invocation.

    duration_ms: without initialisation. init_ms: of its sandbox; None if that had been there before. memory_mb: the
    function's. peak_mb: the most that its sandbox has held; None where its process has ended, logged as all of it.
    begun_ns: when it began, after initialisation, ns since the epoch. error: its type; "" = none.
    """

    duration_ms: float
    init_ms: float | None
    memory_mb: int
    peak_mb: int | None
    begun_ns: int = 0
    error: str = ""

    @property
    def max_mb(self) -> int:
        """Return what Lambda reports as the most that was used."""
        return self.memory_mb if self.peak_mb is None else self.peak_mb


def peak_memory_mb(pid: int | None) -> int | None:
    """Return the most memory that a sandbox has held, in MiB; None once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) // 1_024 for line in status.splitlines() if line.startswith("VmHWM:")), None)


TIMED_OUT = "Sandbox.Timedout"


def invocation_log(request_id: str, version: str, printed: str, report: Report, log_format: str = "Text") -> str:
    """Return an invocation's lines as CloudWatch Logs gets them from Lambda, with what the function has printed."""
    if log_format == "JSON":
        return _json_log(request_id, version, printed, report)
    fields = [
        f"REPORT RequestId: {request_id}",
        f"Duration: {report.duration_ms:.2f} ms",
        f"Billed Duration: {int(report.duration_ms) + 1} ms",
        f"Memory Size: {report.memory_mb} MB",
        f"Max Memory Used: {report.max_mb} MB",
        *([f"Init Duration: {report.init_ms:.2f} ms"] if report.init_ms is not None else []),
    ]
    lines = [f"START RequestId: {request_id} Version: {version}"]
    lines += [*filter(None, printed.split("\n")), f"END RequestId: {request_id}", "\t".join([*fields, ""])]
    return "\n".join(lines)


def _json_log(request_id: str, version: str, printed: str, report: Report) -> str:
    """Return the lines with Lambda's own as JSON, at the log level INFO; they have the times, in milliseconds."""
    metrics = {
        "durationMs": round(report.duration_ms, 3),
        "billedDurationMs": int(report.duration_ms) + 1,
        "memorySizeMB": report.memory_mb,
        "maxMemoryUsedMB": report.max_mb,
        **({"initDurationMs": round(report.init_ms, 3)} if report.init_ms is not None else {}),
    }
    status = "success" if not report.error else "timeout" if report.error == TIMED_OUT else "error"
    failed = {"errorType": report.error} if status == "error" else {}
    began = {"requestId": request_id, "version": version}
    ended = {"requestId": request_id, "metrics": metrics, "status": status, **failed}
    lines = [_json_line("start", report.begun_ns, began), *filter(None, printed.split("\n"))]
    return "\n".join([*lines, _json_line("report", report.begun_ns + int(report.duration_ms * 1e6), ended)])


def _json_line(kind: str, at_ns: int, record: Mapping[str, object]) -> str:
    at_s, ms = divmod(at_ns // 1_000_000, 1_000)
    time = f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
    return json.dumps({"time": time, "type": f"platform.{kind}", "record": record}, separators=(",", ":"))


class Output:
    """
    What a sandbox prints into a pipe, in lines; read by a thread that follows it, and by whoever wants it now.

    On a busy machine the thread comes later than the response, and the lines of a sandbox's last invocation would be
    lost with it.
    """

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._begun = b""

    def follow(self, pipe: IO[bytes], lines: queue.Queue[str]) -> None:
        """Read until the process ends, so that it never waits for a reader; close the pipe."""
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        while ready.poll() and self.read(pipe, lines):
            pass
        with self._reading:
            pipe.close()

    def read(self, pipe: IO[bytes], lines: queue.Queue[str]) -> bool:
        """Read what is in the pipe, and tell whether there may be more; the end of a line may come later."""
        with self._reading, contextlib.suppress(BlockingIOError):
            if pipe.closed:
                return False
            os.set_blocking(pipe.fileno(), False)
            while piece := os.read(pipe.fileno(), 65_536):
                *whole, self._begun = (self._begun + piece).split(b"\n")
                _keep_latest(lines, whole)
            if self._begun:
                _keep_latest(lines, [self._begun])
                self._begun = b""
            return False
        return True


def _keep_latest(lines: queue.Queue[str], whole: list[bytes]) -> None:
    """Add lines to a queue; one that is full loses its oldest."""
    for line in whole:
        with contextlib.suppress(queue.Empty):  # somebody has emptied it meanwhile
            if lines.full():
                lines.get_nowait()
        lines.put_nowait(line.rstrip(b"\r").decode(errors="replace"))


UNUSED_LIMIT_S = 14 * 86_400
"""A layer that no emulator has used for so long is removed: each change of our code makes a new core layer."""


class LayerFolders:
    """Each layer has a folder by its content below `root`, which several emulators may share."""

    def __init__(
        self,
        root: Path,
        extract: Callable[[zipfile.ZipFile, str], object],
        compile_for: Callable[[Path, Path], object] = lambda _partial, _folder: None,
    ) -> None:
        self._root, self._extract, self._compile_for = root, extract, compile_for
        self._lock = threading.Lock()
        self._known: dict[int, tuple[bytes, Path]] = {}
        root.mkdir(parents=True, exist_ok=True)

    def folder(self, blob: bytes) -> Path:
        """Return where a layer is unpacked; by identity first: reading 100 MB takes longer than an import."""
        with self._lock:
            known = self._known.get(id(blob))
            if known is None or not known[1].is_dir():
                known = self._known[id(blob)] = (blob, self._unpacked(blob))
            return known[1]

    def _unpacked(self, blob: bytes) -> Path:
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            folder = self._root / content_key(archive)
            try:
                os.utime(folder)  # looks and marks in one: another emulator may be about to remove it
            except FileNotFoundError:
                self._unpack(archive, folder)
        return folder

    def _unpack(self, archive: zipfile.ZipFile, folder: Path) -> None:
        def fill(partial: Path) -> None:
            self._extract(archive, str(partial))
            self._compile_for(partial, folder)

        self._make(folder, fill)

    def _make(self, folder: Path, fill: Callable[[Path], None]) -> None:
        """Fill under another name first: a folder that has its name is whole, another emulator may make it too."""
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=self._root))
        try:
            fill(partial)
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def merged(self, layers: list[Path]) -> Path:
        """Return one folder with what layers hold, one over the other as in /opt; files are linked, not copied."""
        if len(layers) == 1:
            return layers[0]
        key = hashlib.sha256("/".join(layer.name for layer in layers).encode()).hexdigest()
        folder = self._root / f"merged-{key[:48]}"
        with self._lock:
            if not folder.is_dir():
                self._make(folder, lambda partial: _link(layers, partial))
        os.utime(folder)
        return folder

    def remove_unused(self, now_s: float) -> None:
        """Remove layers that no emulator has used for `UNUSED_LIMIT_S`."""
        for folder in list(self._root.iterdir()):
            with contextlib.suppress(
                OSError
            ):  # another emulator has renamed or removed it, or it is not ours to remove
                if now_s - folder.stat().st_mtime > UNUSED_LIMIT_S:
                    self._remove(folder)

    def _remove(self, folder: Path) -> None:
        """Remove a folder under another name, as it was made: what has its own is whole."""
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=self._root))
        try:
            folder.rename(partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _link(layers: list[Path], folder: Path) -> None:
    for layer in layers:
        for path in sorted(layer.rglob("*")):
            place = folder / path.relative_to(layer)
            if path.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.unlink(missing_ok=True)
                place.hardlink_to(path)


def extract(archive: zipfile.ZipFile, folder: str) -> None:
    """Unpack an archive with the modes of its files."""
    for each in archive.infolist():
        path = archive.extract(each, folder)
        if mode := each.external_attr >> 16:
            Path(path).chmod(mode)


def layer_compiler(python: str) -> Callable[[Path, Path], object]:
    """Return what compiles a layer before its first sandbox does, since writers start by the clock, ready or not."""

    def compile_for(partial: Path, folder: Path) -> object:
        # What a library ships for other versions of Python does not compile, and is not imported either.
        command = [python, "-m", "compileall", "-q", "-j", "0", "-s", str(partial), "-p", str(folder), str(partial)]
        return subprocess.run(command, check=False, capture_output=True)  # noqa: S603 -- Lambda's interpreter

    return compile_for


def content_key(archive: zipfile.ZipFile) -> str:
    """Return a key that is equal for equal files; the times in an archive are those of its packing."""
    entries = [(each.filename, each.CRC, each.file_size, each.external_attr >> 16) for each in archive.infolist()]
    return hashlib.sha256(repr(sorted(entries)).encode()).hexdigest()
