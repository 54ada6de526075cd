"""What `start_cassandra` says when it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.stores.cassandra.node import start_cassandra

if TYPE_CHECKING:
    from pathlib import Path


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
