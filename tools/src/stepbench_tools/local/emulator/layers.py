"""
Layers of the emulator's functions, unpacked when they are deployed and reused by the emulators after it.

Unpacked when the first sandbox asks for it, into a folder that goes with the emulator, a layer would be compiled there
by what imports it first: eight seconds of the first trial after each start. On Lambda a layer is in place once its
function is deployed. The shims load this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
        """Unpack under another name first: a folder that has its name is whole, another emulator may make it too."""
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=self._root))
        try:
            self._extract(archive, str(partial))
            self._compile_for(partial, folder)
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)

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
