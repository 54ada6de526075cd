"""Archives for Lambda; the measuring layer as `sam build` makes it, and the lines that it writes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGIN = '{"stepbench.'
"""What the layer's lines begin with; what the function has printed without an end of line stands before."""
SOURCE = Path(__file__).parents[2] / "layers/measuring"


def build_layer(folder: Path) -> Path:
    """Build the layer into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    variables = {**os.environ, "ARTIFACTS_DIR": str(folder)}
    subprocess.run(["make", "--silent", "build-MeasuringLayer"], cwd=SOURCE, env=variables, check=True)
    return folder


def pack_layer(folder: Path) -> bytes:
    """Return the archive of a built layer, with the modes of its files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(path, path.relative_to(folder))
    return buffer.getvalue()


def zipped(files: Mapping[str, str], mode: int = 0o644) -> bytes:
    """Return a deployment package, whose files have this mode."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)  # of no particular time: equal files are equal bytes
            entry.external_attr = mode << 16
            archive.writestr(entry, text)
    return buffer.getvalue()


def measured_lines(messages: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and fields of the layer's lines among others."""
    found = [json.loads(message[message.index(BEGIN) :]) for message in messages if BEGIN in message]
    return [next(iter(line.items())) for line in found]
