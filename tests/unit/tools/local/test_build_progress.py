"""The words of SAM CLI that tell how far a build is."""

from __future__ import annotations

import re
from pathlib import Path

from stepbench_tools.local.build_progress import EVERY_S, BuildProgress, count_layers, layers_begun

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
