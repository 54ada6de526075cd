"""What of a folder is packed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stepbench.errors import PlanError
from stepbench_tools.local.archives import write_archive
from stepbench_tools.local.packing import folder as packing
from stepbench_tools.local.packing.folder import list_files, require_no_clash

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a function's folder."""
    top = tmp_path / "app"
    (top / "lib").mkdir(parents=True)
    (top / "app.py").write_text("def handler(event, context): ...")
    (top / "lib/tool.py").write_text("TOOL = 1")
    return top


def test_caches_environments_and_secrets_stay(folder: Path) -> None:
    """A `.env` in an archive would be in a bucket for a year."""
    for name in (".git", "__pycache__", ".venv", ".pytest_cache"):
        (folder / name).mkdir()
        (folder / name / "x").write_text("")
    for name in (".env", ".env.production", ".npmrc", "app.pyc", ".DS_Store"):
        (folder / name).write_text("")
    assert list(list_files(folder)) == ["app.py", "lib/tool.py"]


def test_logins_and_private_keys_stay(folder: Path) -> None:
    """Certificates without a key are packed: a function checks its database's with them."""
    for name in (".aws", ".ssh"):
        (folder / name).mkdir()
        (folder / name / "config").write_text("")
    for name in ("prod.env", "id_rsa", "id_ed25519", "id_ecdsa", "credentials", "credentials.json"):
        (folder / name).write_text("")
    (folder / "server.pem").write_text("-----BEGIN RSA PRIVATE KEY-----")
    (folder / "server.key").write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----")
    (folder / "bundle.pem").write_text("-----BEGIN CERTIFICATE-----")
    (folder / "lib/credentials").mkdir()
    (folder / "lib/credentials/chain.py").write_text("")
    assert list(list_files(folder)) == ["app.py", "bundle.pem", "lib/credentials/chain.py", "lib/tool.py"]


def test_equal_files_are_equal_bytes(folder: Path, tmp_path: Path) -> None:
    """So a package's name says whether code has changed; times and a checkout's permissions do not."""
    write_archive(list_files(folder), tmp_path / "one.zip")
    os.utime(folder / "app.py", (1, 1))
    (folder / "app.py").chmod(0o600)
    write_archive(list_files(folder), tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_link_inside_is_packed_as_what_it_names(folder: Path) -> None:
    """Lambda has the file, whether or not an archive has links."""
    (folder / "link.py").symlink_to("app.py")
    (folder / "linked").symlink_to("lib")
    assert {"link.py", "linked/tool.py"} <= list_files(folder).keys()


@pytest.mark.parametrize(
    ("target", "said"),
    [("/etc/hostname", "a link out of the folder"), ("gone", "leads nowhere"), ("..", "out of"), (".", "contains it")],
)
def test_a_link_elsewhere_is_refused(folder: Path, target: str, said: str) -> None:
    """A folder of somebody else's could hand on any file of this machine."""
    (folder / "link").symlink_to(target)
    with pytest.raises(PlanError, match=said):
        list_files(folder)


def test_what_is_no_file_is_refused(folder: Path) -> None:
    """Reading a pipe would wait for ever."""
    os.mkfifo(folder / "pipe")
    with pytest.raises(PlanError, match="neither a file nor a folder"):
        list_files(folder)


@pytest.mark.parametrize(("limit", "said"), [("MOST_BYTES", "larger than"), ("MOST_FILES", "more than 1 files")])
def test_a_home_directory_is_not_read_to_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str, said: str
) -> None:
    """Lambda would take neither."""
    monkeypatch.setattr(packing, limit, 1)
    with pytest.raises(PlanError, match=said):
        list_files(folder)


@pytest.mark.parametrize(("name", "said"), [("gone", "is no folder"), ("app.py", "is a file")])
def test_what_is_no_folder_is_refused(folder: Path, name: str, said: str) -> None:
    """With what to give."""
    with pytest.raises(PlanError, match=said):
        list_files(folder / name)


@pytest.mark.parametrize("name", ["stepbench_measuring.py", "node_modules/stepbench-measuring/index.js"])
def test_nothing_stands_in_for_the_measuring_layer(folder: Path, name: str) -> None:
    """It would be imported in its place, and nothing would be measured."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("")
    with pytest.raises(PlanError, match="Rename it"):
        require_no_clash(list_files(folder))
