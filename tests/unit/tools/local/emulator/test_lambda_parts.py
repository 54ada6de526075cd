from __future__ import annotations

import io
import marshal
import os
import shutil
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from stepbench_tools.local.emulator.lambda_parts import (
    UNUSED_LIMIT_S,
    LayerFolders,
    extract,
    layer_compiler,
    library_path,
    module_path,
)

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


def layer(text: str = "x = 1", *, packed_in: int = 2026) -> bytes:
    """Return a layer of one module."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo("python/module.py", (packed_in, 1, 1, 0, 0, 0)), text)
    return made.getvalue()


def test_equal_layers_share_a_folder_whenever_they_were_packed(tmp_path: Path) -> None:
    """Code that Python has compiled there serves the next deployment, and the next emulator, of the same libraries."""
    folder = LayerFolders(tmp_path, extract).folder(layer(packed_in=2025))
    (folder / "python" / "compiled").touch()
    again = LayerFolders(tmp_path, extract).folder(layer(packed_in=2026))
    assert (again / "python" / "compiled").exists()
    assert (again / "python" / "module.py").read_text() == "x = 1"


def test_another_content_gets_another_folder(tmp_path: Path) -> None:
    """Otherwise a function would run yesterday's code."""
    folders = LayerFolders(tmp_path, extract)
    assert folders.folder(layer("x = 2")) != folders.folder(layer("x = 1"))


def test_a_layer_is_read_once_however_many_sandboxes_start(tmp_path: Path) -> None:
    """A layer may have 100 MB, and each cold start asks for it."""
    unpacked: list[str] = []
    folders, blob = LayerFolders(tmp_path, lambda *arguments: unpacked.append(arguments[1])), layer()
    assert folders.folder(blob) == folders.folder(blob)
    assert len(unpacked) == 1


@pytest.mark.parametrize(
    "problem", [OSError(28, "No space left on device"), zipfile.BadZipFile("broken"), KeyboardInterrupt("broken off")]
)
def test_a_layer_that_cannot_be_unpacked_leaves_nothing_behind(tmp_path: Path, problem: BaseException) -> None:
    """Half a layer would be taken for a whole one at the next start, and lie there for two weeks."""

    def leave_half(_archive: zipfile.ZipFile, folder: str) -> None:
        with open(f"{folder}/half", "w"):  # noqa: PTH123 -- as MiniStack does
            raise problem

    with pytest.raises(type(problem), match=str(problem.args[-1])):
        LayerFolders(tmp_path, leave_half).folder(layer())
    assert list(tmp_path.iterdir()) == []


def test_one_that_another_emulator_has_unpacked_meanwhile_is_taken(tmp_path: Path) -> None:
    """Two environments of a clone may be deployed to at once."""

    def beaten(archive: zipfile.ZipFile, folder: str) -> None:
        archive.extractall(folder)
        other = LayerFolders(tmp_path, extract).folder(layer())
        (other / "python" / "theirs").touch()

    assert (LayerFolders(tmp_path, beaten).folder(layer()) / "python" / "theirs").exists()
    assert len(list(tmp_path.iterdir())) == 1


def test_what_nobody_has_used_for_long_is_removed(tmp_path: Path) -> None:
    """Each change of our code makes a new core layer."""
    folders = LayerFolders(tmp_path, extract)
    old, used = folders.folder(layer("x = 1")), folders.folder(layer("x = 2"))
    os.utime(old, (0, 0))
    folders.remove_unused(used.stat().st_mtime + UNUSED_LIMIT_S - 1)
    assert list(tmp_path.iterdir()) == [used]


def test_what_another_emulator_is_about_to_rename_or_remove_does_not_stop_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two start at once; and a layer that is half removed must not have its name, by which the other would take it."""
    folders = LayerFolders(tmp_path, extract)
    for number in range(3):
        (tmp_path / f"old-{number}").mkdir()
        (tmp_path / f"partial-{number}").mkdir()
        os.utime(tmp_path / f"old-{number}", (0, 0))
    removed: list[str] = []
    rmtree = shutil.rmtree

    def meanwhile(path: Path, **options: Any) -> None:  # noqa: ANN401 -- rmtree's
        removed.append(path.name)
        for partial in tmp_path.glob("partial-?"):
            partial.rename(tmp_path / partial.name.replace("partial", "done"))
        rmtree(path, **options)

    monkeypatch.setattr(shutil, "rmtree", meanwhile)
    folders.remove_unused(UNUSED_LIMIT_S + 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["done-0", "done-1", "done-2"]
    assert all(name.startswith("partial-") for name in removed)


def test_a_layer_that_is_removed_between_two_looks_is_unpacked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another emulator may do it; the deployment goes on."""
    folder = LayerFolders(tmp_path, extract).folder(layer())
    utime = os.utime

    def too_late(path: Path) -> None:
        monkeypatch.setattr(os, "utime", utime)
        shutil.rmtree(path)
        utime(path)

    monkeypatch.setattr(os, "utime", too_late)
    assert (LayerFolders(tmp_path, extract).folder(layer()) / "python" / "module.py").exists()
    assert folder.is_dir()


def test_a_layer_is_compiled_for_the_place_where_it_lies(tmp_path: Path) -> None:
    """Writers start by the clock, ready or not: none may compile a library first."""
    folder = LayerFolders(tmp_path, extract, layer_compiler(sys.executable)).folder(layer())
    (compiled,) = (folder / "python" / "__pycache__").iterdir()
    code = marshal.loads(compiled.read_bytes()[16:])  # noqa: S302 -- our own
    assert code.co_filename == str(folder / "python" / "module.py")


def test_a_program_in_a_layer_stays_one(tmp_path: Path) -> None:
    """`zipfile` forgets modes; an extension has to be executable on Lambda."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        entry = zipfile.ZipInfo("bin/program")
        entry.external_attr = 0o100755 << 16
        archive.writestr(entry, "#!/bin/sh")
    assert os.access(LayerFolders(tmp_path, extract).folder(made.getvalue()) / "bin/program", os.X_OK)
