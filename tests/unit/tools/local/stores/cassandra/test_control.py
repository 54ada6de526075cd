"""What the control of a node does not do; what it does is tested with the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepbench_tools.local.stores.cassandra.__main__ import Control, RefusedError
from stepbench_tools.local.stores.cassandra.configuration import FAST, Installation
from stepbench_tools.local.stores.cassandra.node import Node

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
