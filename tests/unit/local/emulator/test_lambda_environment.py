"""What sandboxes of both emulators have in common."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stepbench.local.emulator.lambda_environment import module_path

if TYPE_CHECKING:
    from pathlib import Path


def test_layers_are_searched_from_the_last_to_the_first(tmp_path: Path) -> None:
    """A layer's site-packages come before its own folder, and the function's code before all."""
    site = tmp_path / "b/python/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    found = module_path("/code", [tmp_path / "a", tmp_path / "b"]).split(os.pathsep)
    assert found == ["/code", str(site), str(tmp_path / "b/python"), str(tmp_path / "a/python")]
