"""Requirements of functions, installed from the registries for real."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from stepbench.errors import LocalEnvironmentError, PlanError, StepbenchError
from stepbench_tools.cli.inputs import clone_paths
from stepbench_tools.local.deploy import python_runtime
from stepbench_tools.local.packing import dependencies as installing
from stepbench_tools.local.packing.dependencies import Workshop, dependencies

NOWHERE = "http://127.0.0.1:9/"
INTEGRITY = "sha512-Aooyr6MXU6HpvvWXKoVoXwKMs/KyVakWwg7xQfv5/S/RIgJMy0Ifa45H9qqYy7pTCszrHzP21Uk4PZq2HpEM8Q=="


class Shop(Workshop):
    """The workshop of this clone with a cache of the test's own."""

    folder = Path()

    @property
    def cache(self) -> Path:
        """Return an empty folder."""
        return self.folder


@pytest.fixture
def said() -> list[str]:
    """Return what is printed on the terminal."""
    return []


@pytest.fixture
def shop(tmp_path: Path, said: list[str]) -> Shop:
    """Return a workshop that has installed nothing yet."""
    paths = replace(clone_paths(), home=tmp_path / "home")
    found = Shop(paths, partial(python_runtime, paths), said.append)
    found.folder = tmp_path / "cache"
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a function's folder."""
    (tmp_path / "app").mkdir()
    return tmp_path / "app"


def _require_npm(folder: Path, version: str = "5.0.9") -> None:
    package = {"name": "app", "version": "1.0.0", "dependencies": {"nanoid": version}}
    nanoid = {"version": version, "integrity": INTEGRITY}
    lock = {"lockfileVersion": 3, "packages": {"": package, "node_modules/nanoid": nanoid}}
    (folder / "package.json").write_text(json.dumps(package))
    (folder / "package-lock.json").write_text(json.dumps({**package, "requires": True, **lock}))


def test_wheels_are_installed_once_with_words(folder: Path, shop: Shop, said: list[str]) -> None:
    """The second time asks no registry; nothing of the installer's own is packed."""
    (folder / "requirements.txt").write_text("-r more.txt  # two files\n")
    (folder / "more.txt").write_text("idna==3.10\n")
    found = dependencies(folder, "python", shop)
    assert "idna/core.py" in found
    assert not [name for name in found if name.startswith("bin/")]
    assert [line.split()[0] for line in said] == ["installing", "installed"]
    assert dependencies(folder, "python", shop) == found
    assert len(said) == 2


def test_npm_installs_what_the_lock_says(folder: Path, shop: Shop) -> None:
    """Without the packages' scripts, and without what only development needs."""
    _require_npm(folder)
    found = dependencies(folder, "nodejs", shop)
    assert json.loads(found["node_modules/nanoid/package.json"].read_text())["version"] == "5.0.9"
    assert {name.split("/")[0] for name in found} == {"node_modules"}
    assert not [name for name in found if "/.bin/" in name or name.endswith(".package-lock.json")]


def test_a_requirement_without_a_wheel_is_bad_input(folder: Path, shop: Shop) -> None:
    """Building one would run its `setup.py`, here and now."""
    (folder / "requirements.txt").write_text("docopt==0.6.2\n")
    with pytest.raises(PlanError, match="cannot be installed as a wheel for python3"):
        dependencies(folder, "python", shop)


@pytest.mark.parametrize("language", ["python", "nodejs"])
def test_a_registry_that_does_not_answer_is_no_bad_input(
    folder: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, language: str
) -> None:
    """Nothing half installed is left, and the next try installs it."""
    (folder / "requirements.txt").write_text("idna==3.10\n")
    _require_npm(folder)
    for name in ("UV_NO_CACHE", "UV_OFFLINE"):
        monkeypatch.setenv(name, "1")
    for name, value in {"registry": NOWHERE, "fetch_retries": "0", "cache": str(tmp_path / "npm")}.items():
        monkeypatch.setenv(f"npm_config_{name}", value)
    with pytest.raises(StepbenchError) as refused:
        dependencies(folder, "python" if language == "python" else "nodejs", shop)
    assert type(refused.value) is LocalEnvironmentError
    assert not [path for path in (shop.cache / "installed").iterdir() if not path.name.endswith(".partial")]


def test_a_package_s_script_is_not_run(folder: Path, shop: Shop, tmp_path: Path) -> None:
    """Packing executes nothing: neither the folder's own scripts nor those of what it requires."""
    _require_npm(folder)
    package = json.loads((folder / "package.json").read_text())
    package["scripts"] = {"preinstall": f"touch {tmp_path}/executed", "postinstall": f"touch {tmp_path}/executed"}
    (folder / "package.json").write_text(json.dumps(package))
    dependencies(folder, "nodejs", shop)
    assert not (tmp_path / "executed").exists()


def test_installers_are_bounded(folder: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs would hold the lock for ever."""
    monkeypatch.setattr(installing, "INSTALL_S", 0.0)
    _require_npm(folder)
    with pytest.raises(LocalEnvironmentError, match="did not end within"):
        dependencies(folder, "nodejs", shop)


def test_an_archive_opens(folder: Path, shop: Shop, tmp_path: Path) -> None:
    """Lambda reads it as `zipfile` does."""
    from stepbench_tools.local.archives import write_archive

    _require_npm(folder)
    write_archive(dependencies(folder, "nodejs", shop), tmp_path / "one.zip")
    assert zipfile.ZipFile(tmp_path / "one.zip").testzip() is None
