"""Layers as archives: once for equal contents, with what the functions' user may read."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from stepbench_tools.local.archives import PACKED, pack_layers

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = """
Resources:
  CoreLayer:
    Properties:
      ContentUri: CoreLayer
  AnyFunction:
    Properties:
      CodeUri: AnyFunction
"""


@pytest.fixture
def artefacts(tmp_path: Path) -> Path:
    """Return a build of one layer."""
    folder = tmp_path / "artefacts"
    (folder / "CoreLayer/python").mkdir(parents=True)
    (folder / "CoreLayer/python/a.py").write_text("A = 1")
    (folder / "CoreLayer/python/a.py").chmod(0o700)
    (folder / "template.yaml").write_text(TEMPLATE)
    return folder


def _packed(artefacts: Path) -> Path:
    pack_layers(artefacts, artefacts.parent / "archives")
    (archive,) = (artefacts.parent / "archives").iterdir()
    assert (artefacts / PACKED).read_text() == TEMPLATE.replace("ContentUri: CoreLayer", f"ContentUri: {archive}")
    return archive


def test_a_layer_is_an_archive_whose_files_anybody_may_read(artefacts: Path) -> None:
    """Functions run as another user than who has built them."""
    with zipfile.ZipFile(_packed(artefacts)) as archive:
        (entry,) = archive.infolist()
        assert (entry.filename, archive.read(entry)) == ("python/a.py", b"A = 1")
        assert entry.external_attr >> 16 & 0o777 == 0o744


def test_only_what_has_changed_is_packed_anew(artefacts: Path) -> None:
    """And what is not needed any longer goes: each change of the code would leave a megabyte."""
    first = _packed(artefacts)
    made_at_ns = first.stat().st_mtime_ns
    assert _packed(artefacts).stat().st_mtime_ns == made_at_ns
    (artefacts / "CoreLayer/python/a.py").write_text("A = 2")
    assert _packed(artefacts) != first
    assert not first.exists()
