"""What `sam build` is at, by its own words, for somebody who waits minutes for it."""

from __future__ import annotations

import hashlib
import re
import time
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepbench.digits import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


PACKED = "packed.yaml"
_CONTENT = re.compile(r"^(\s+ContentUri: )(\S+)$", re.MULTILINE)
_READABLE = 0o444
"""Lambda's user is another than who packs; SAM CLI sets the same."""
_LEVEL = 1
"""A third of the time of zlib's default, for a sixth more bytes, which go to an emulator on this machine."""


def pack_layers(artefacts: Path, archives: Path) -> None:
    """
    Write beside a built template another one (`PACKED`), whose layers are archives.

    Args:
        artefacts: the folder with `template.yaml` and the layers' folders, as `sam build` leaves it.
        archives: the folder of archives: those of layers that have not changed are kept, all others go.
    """
    archives.mkdir(exist_ok=True)
    template = (artefacts / "template.yaml").read_text("utf-8")
    needed = {name: _archive(artefacts / name, archives) for _, name in _CONTENT.findall(template)}
    for path in set(archives.iterdir()) - set(needed.values()):
        path.unlink()
    (artefacts / PACKED).write_text(_CONTENT.sub(lambda found: f"{found[1]}{needed[found[2]]}", template), "utf-8")


def _archive(folder: Path, archives: Path) -> Path:
    """Return the archive of a folder's files, under a name by their names, modes and contents."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    digest = hashlib.sha256()
    for name, path in files.items():
        digest.update(f"{name}\0{path.stat().st_mode:o}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    archive = archives / f"{folder.name}-{digest.hexdigest()[:32]}.zip"
    if not archive.exists():
        partial = archive.with_suffix(".partial")
        with zipfile.ZipFile(partial, "w") as packed:
            for name, path in files.items():
                packed.writestr(_entry(name, path), path.read_bytes(), zipfile.ZIP_DEFLATED, _LEVEL)
        partial.rename(archive)
    return archive


def _entry(name: str, path: Path) -> zipfile.ZipInfo:
    """Return a file's entry, without a time, so that equal layers are equal archives."""
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3  # Unix
    entry.external_attr = (path.stat().st_mode | _READABLE) << 16
    return entry


EVERY_S = 20.0
"""How often the step is reported again while nothing new begins."""
_LAYER = "AWS::Serverless::LayerVersion"
_BEGUN = re.compile(r"^(?:Building layer '|Valid cache found, .* following layers \()(\w+)", re.MULTILINE)


def layers_begun(log: str) -> list[str]:
    """Return the layers that SAM CLI has begun to build or to take from its cache, each once, in that order."""
    return list(dict.fromkeys(_BEGUN.findall(log)))


@dataclass
class BuildProgress:
    """
    The progress of a build is notified when a layer begins, and every `EVERY_S` with the time that it has taken.

    Attributes:
        log: where SAM CLI writes.
        layers: how many the template has.
        notify: prints a sentence.
        now_s: a clock that counts seconds.
    """

    log: Path
    layers: int
    notify: Callable[[str], None]
    now_s: Callable[[], float] = time.monotonic
    _begun: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start_s = self._notified_s = self.now_s()

    def look(self) -> None:
        """Read the log, and notify what is new."""
        begun = layers_begun(self.log.read_text(errors="replace")) if self.log.exists() else []
        now_s = self.now_s()
        if begun == self._begun and now_s - self._notified_s < EVERY_S:
            return
        self._begun, self._notified_s = begun, now_s
        what = f"{begun[-1]}, {len(begun)} of {counted(self.layers, 'layer')}" if begun else "its functions"
        self.notify(f"building {what}, after {duration(now_s - self._start_s)}")


def count_layers(template: Path) -> int:
    """Return how many layers a template has."""
    return template.read_text(encoding="utf-8").count(_LAYER)
