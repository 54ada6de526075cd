"""What `start_cassandra` says when it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.stores.cassandra.__main__ import Control, RefusedError
from stepbench_tools.local.stores.cassandra.configuration import FAST, Installation
from stepbench_tools.local.stores.cassandra.node import Node, start_cassandra

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/nodetool", {}),
        ("/nodetool", {"arguments": ["drain"]}),
        ("/restart", {"settings": {"data_file_directories": ["/elsewhere"]}}),
        ("/else", {}),
    ],
)
def test_it_does_nothing_that_tuning_does_not_need(tmp_path: Path, path: str, asked: dict[str, Any]) -> None:
    """Everybody on this machine can reach it."""
    node = Node(tmp_path / "data", Installation("no-java", tmp_path, "5.0.5"), FAST)
    with Control(node) as control, pytest.raises(RefusedError):
        control.answer(path, asked)
    assert not (tmp_path / "data").exists()


def test_missing_jars_are_told_with_what_fetches_them(tmp_path: Path) -> None:
    """`stepbench` fetches them for a run, and the program beside it does not."""
    with pytest.raises(LocalEnvironmentError, match="make setup-cassandra"):
        start_cassandra(tmp_path / "data", jars=tmp_path / "jars")
    assert not (tmp_path / "data").exists()


def test_a_missing_java_is_told_with_what_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no part of Stepbench."""
    (tmp_path / "cassandra-all-5.0.5.jar").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalEnvironmentError, match="openjdk"):
        start_cassandra(tmp_path / "data", jars=tmp_path)
