"""
What a function requires, installed once: from `requirements.txt` as wheels, from `package.json` by its lock.

Nothing that is installed is executed: no source distribution is built, and no package's script is run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepbench.compiled import processor
from stepbench.digits import counted, duration
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.packing.folder import list_files, refusal
from stepbench_tools.local.programs import run_logged, run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stepbench_tools.local.packing.handlers import Language
    from stepbench_tools.local.paths import Paths

REQUIREMENTS, NODE_MODULES, MANIFEST = "requirements.txt", "node_modules", "package.json"
LOCKS = ("npm-shrinkwrap.json", "package-lock.json")
INSTALL_S = 600
KEPT = 20
"""So many installations, and archives, are kept; of more, the oldest go."""
_INCLUDED = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)[ =]\s*(\S+)", re.MULTILINE)
_NO_WHEEL = ("no solution found", "has no usable wheels", "has no wheels", "building source")
_UNREACHED = ("failed to fetch", "network was disabled", "could not connect", "dns error", "error sending request")
_OF_INSTALLERS = ("bin/", ".lock", "node_modules/.bin/", "node_modules/.package-lock.json")
"""What installers write for themselves, with paths and addresses of this machine."""


class Workshop(NamedTuple):
    """Where functions are packed: the paths of a clone, what asks for the Python here, and who hears of progress."""

    paths: Paths
    python: Callable[[], str]
    notify: Callable[[str], None]

    @property
    def cache(self) -> Path:
        """Return the folder of installations and archives; it outlives the environment."""
        return self.paths.installed / "functions"


def dependencies(folder: Path, language: Language, workshop: Workshop) -> dict[str, Path]:
    """
    Return what a function's folder requires, by its names in the package; nothing where it requires nothing.

    Raises:
        PlanError: a requirement has no wheel for this interpreter, or a package.json has no lock.
        LocalEnvironmentError: the registry does not answer, or the installer is missing.
    """
    if language == "python":
        return _installed_python(folder, workshop) if (folder / REQUIREMENTS).is_file() else {}
    return _installed_node(folder, workshop) if requires_npm(folder) else {}


def requires_npm(folder: Path) -> bool:
    """
    Return whether packages have to be installed by npm, from the folder's lock.

    Raises:
        PlanError: they would have to be, and there is neither a lock nor a `node_modules`.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return False
    try:
        wanted = json.loads(manifest.read_text("utf-8")).get("dependencies")
    except (OSError, ValueError, AttributeError) as error:
        raise refusal(manifest, f"cannot be read: {error}", "Mend it.") from error
    if not wanted or _lock(folder) is not None:
        return bool(wanted)
    if (folder / NODE_MODULES).is_dir():
        return False
    message = f"names {counted(len(wanted), 'package')}, and there is no lock beside it"
    raise refusal(manifest, message, "Run `npm install --package-lock-only` there.")


def _lock(folder: Path) -> Path | None:
    return next((folder / name for name in LOCKS if (folder / name).is_file()), None)


def _installed_python(folder: Path, workshop: Workshop) -> dict[str, Path]:
    texts = _requirement_texts(folder / REQUIREMENTS, folder)
    if not any(re.sub(r"(?m)(^|\s)#.*$", "", text).strip() for text in texts):
        return {}
    paths = workshop.paths
    command: list[str | Path] = [paths.tool("uv", "uv"), "pip", "install", "--quiet", "--only-binary", ":all:"]
    command += ["--python", paths.tool("lambda", "python"), "--requirement", folder / REQUIREMENTS, "--target"]
    environment = dict(os.environ)
    if index := environment.get("PIP_INDEX_URL"):
        environment.setdefault("UV_DEFAULT_INDEX", index)

    def install(target: Path) -> None:
        _run(workshop, [*command, target], folder, environment)

    target = _once([workshop.python(), processor(), *texts], f"{folder}/{REQUIREMENTS}", workshop, install)
    return _installed_files(target)


def _installed_files(target: Path) -> dict[str, Path]:
    return {name: path for name, path in list_files(target).items() if not name.startswith(_OF_INSTALLERS)}


def _requirement_texts(file: Path, folder: Path) -> list[str]:
    """Return the text of requirements, and those of the files that they include."""
    texts, files = [], [file]
    for each in files:  # it grows meanwhile
        try:
            texts.append(each.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise refusal(each, f"cannot be read: {error}", f"Mend what {REQUIREMENTS} names.") from error
        included = ((each.parent / name).resolve() for name in _INCLUDED.findall(texts[-1]) if "://" not in name)
        for path in included:
            if not path.is_relative_to(folder.resolve()):
                raise refusal(path, f"is included by {each.name} and lies outside the folder", "Copy it there.")
            if path not in files:
                files.append(path)
    return texts


def _installed_node(folder: Path, workshop: Workshop) -> dict[str, Path]:
    lock = _lock(folder)
    if lock is None:
        return {}
    npm = shutil.which("npm")
    if npm is None:
        message = "npm is not installed on this machine; install Node.js, or put node_modules into the folder"
        raise LocalEnvironmentError(message)
    named = [MANIFEST, lock.name, ".npmrc"]
    texts = [(folder / name).read_text("utf-8") for name in named if (folder / name).is_file()]

    def install(target: Path) -> None:
        target.mkdir()
        for name in named:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, target / name)
        options = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--no-bin-links"]
        try:
            _run(workshop, [npm, "ci", *options], target, os.environ)
        finally:  # .npmrc may hold a login, and what failed stays until the next time
            for name in named:
                (target / name).unlink(missing_ok=True)

    node = run_program(["node", "--version"], "node").strip()
    target = _once([node, processor(), *texts], f"{folder}/{lock.name}", workshop, install)
    return _installed_files(target)


def node_runtime() -> str:
    """
    Return Lambda's name of the Node.js of this machine, such as `nodejs20.x`.

    Raises:
        LocalEnvironmentError: there is none.
    """
    return f"nodejs{run_program(['node', '--version'], 'node').strip().lstrip('v').partition('.')[0]}.x"


def _once(content: Sequence[str], what: str, workshop: Workshop, install: Callable[[Path], None]) -> Path:
    """Return the folder of what is installed for a content, which is installed if no run has done so yet."""
    key = hashlib.sha256(json.dumps(list(content)).encode()).hexdigest()[:32]
    installed = workshop.cache / "installed"
    from stepbench_tools.local.deploy import exclusive_lock  # noqa: PLC0415 -- it loads botocore; checks do without

    with exclusive_lock(workshop.cache, workshop.notify):
        target, partial = installed / key, installed / f"{key}.partial"
        if not target.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
            installed.mkdir(parents=True, exist_ok=True)
            workshop.notify(f"installing {what}, which takes a while the first time")
            begun_s = time.monotonic()
            install(partial)
            workshop.notify(f"installed it in {duration(time.monotonic() - begun_s)}; it is kept in {workshop.cache}")
            partial.mkdir(exist_ok=True)
            partial.rename(target)
        target.touch()
        keep_newest(installed)
    return target


def keep_newest(folder: Path, in_use: Collection[Path] = ()) -> None:
    """Remove all but the entries that were used last, and those that are in use."""
    for old in sorted(folder.iterdir(), key=_used_s, reverse=True)[KEPT:]:
        if old in in_use:
            continue
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.unlink(missing_ok=True)


def _used_s(path: Path) -> float:
    """Return when an entry was used last; 0 of one that another command has removed meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0


def _run(workshop: Workshop, command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> None:
    from stepbench_tools.local.deploy import EVERY_S  # noqa: PLC0415 -- the same

    begun_s = notified_s = time.monotonic()

    def look() -> None:
        nonlocal notified_s
        if time.monotonic() - notified_s >= EVERY_S:
            notified_s = time.monotonic()
            workshop.notify(f"still installing, after {duration(notified_s - begun_s)}")

    log = workshop.paths.logs / "install-function.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    what = f"installing for {folder}"
    try:
        run_logged(command, what, log=log, timeout_s=INSTALL_S, env=environment, cwd=folder, look=look)
    except LocalEnvironmentError as error:
        words = ""
        with suppress(OSError):
            words = " ".join(log.read_text(errors="replace").split())
        said = words.lower()
        if any(sign in said for sign in _NO_WHEEL) and not any(sign in said for sign in _UNREACHED):
            message = (
                f"has what cannot be installed as a wheel for {workshop.python()} on {processor()}: {words[-1_000:]}"
            )
            remedy = "Name a version that has one, or put the package's own files into the folder."
            raise refusal(folder / REQUIREMENTS, message, remedy) from error
        raise
