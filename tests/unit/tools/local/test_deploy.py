"""The words of SAM CLI that tell how far a build is."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from stepbench_tools.local.deploy import EVERY_S, PACKED, BuildProgress, count_layers, layers_begun, pack_layers

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
        assert entry.external_attr >> 16 & 0o777 == 0o755


def test_only_what_has_changed_is_packed_anew(artefacts: Path) -> None:
    """And what is not needed any longer goes: each change of the code would leave a megabyte."""
    first = _packed(artefacts)
    made_at_ns = first.stat().st_mtime_ns
    assert _packed(artefacts).stat().st_mtime_ns == made_at_ns
    (artefacts / "CoreLayer/python/a.py").write_text("A = 2")
    assert _packed(artefacts) != first
    assert not first.exists()


LOG = """Starting Build use cache
Building layer 'LibrariesLayer'
Cache is invalid, running build and copying resources for following layers (TracingLayer)
Building layer 'TracingLayer'
TracingLayer: Running CustomMakeBuilder:CopySource
Valid cache found, copying previously built resources for following layers (CoreLayer)
Building codeuri: /clone/functions runtime: python3.11 architecture: x86_64 functions: RunWriterFunction
"""


def test_layers_are_known_by_sams_own_words() -> None:
    """One is built, one taken from the cache; both are begun."""
    assert layers_begun(LOG) == ["LibrariesLayer", "TracingLayer", "CoreLayer"]


def test_a_build_is_notified_by_layer_and_now_and_then_while_one_takes_long(tmp_path: Path) -> None:
    """Three minutes without a word look like a command that hangs."""
    said: list[str] = []
    now_s = 100.0
    log = tmp_path / "sam-build.log"
    progress = BuildProgress(log, 11, said.append, lambda: now_s)
    progress.look()
    log.write_text(LOG)
    now_s += 15
    progress.look()
    progress.look()
    now_s += EVERY_S
    progress.look()
    assert said == [
        "building CoreLayer, 3 of 11 layers, after 15 s",
        "building CoreLayer, 3 of 11 layers, after 35 s",
    ]


def test_the_template_has_as_many_layers_as_are_counted() -> None:
    """By its text: CloudFormation's tags are not for every reader of YAML."""
    template = Path(__file__).parents[4] / "template.yaml"
    names = re.findall(r"(?m)^  (\w+Layer):", template.read_text())
    assert len(names) > 5
    assert count_layers(template) == len(names)
