"""What sandboxes of both emulators have in common."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stepbench_tools.local.emulator.lambda_environment import library_path, module_path

if TYPE_CHECKING:
    from pathlib import Path


def test_layers_are_searched_from_the_last_to_the_first(tmp_path: Path) -> None:
    """A layer's site-packages come before its own folder, and the function's code before all."""
    site = tmp_path / "b/python/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    found = module_path("/code", [tmp_path / "a", tmp_path / "b"]).split(os.pathsep)
    assert found == ["/code", str(site), str(tmp_path / "b/python"), str(tmp_path / "a/python")]


def test_a_layers_own_libraries_are_found(tmp_path: Path) -> None:
    """LightGBM's wheel needs one that Lambda has not; its layer brings it."""
    (tmp_path / "a/lib").mkdir(parents=True)
    assert library_path([tmp_path / "a", tmp_path / "b"]) == str(tmp_path / "a/lib")
    assert library_path([tmp_path / "b"]) == ""  # no empty entry, which would be the current folder
