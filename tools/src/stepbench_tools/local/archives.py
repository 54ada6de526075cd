"""
Layers of a build as archives, packed once for all deployments of it.

SAM CLI packs each folder anew for each deployment: 23 s of a core for the 480 MB of ours, most of what `up` takes.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
