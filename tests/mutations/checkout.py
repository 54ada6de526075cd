"""
A scratch checkout in which faults are planted and the suite is run.

It is a work tree of git with an environment of its own: the packages are links to this checkout's, and `stepbench` is
installed from the scratch sources, so that every process that its interpreter starts has the fault, whatever its
PYTHONPATH. Tools that set-up has installed are links; what is built of the sources is built anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tests.mutations.faults import Fault, Place, planted
from tests.mutations.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


TOOLS = ("venvs", "cassandra", "dynamodb", "localstack", "sam")
CHARTS = "layers/core/src/stepbench/report/charts.json"
NOTHING_RAN, THREADS_LEFT = 5, 6
GRACE_S = 60
TEST_TIMEOUT_S = 300


@dataclass(frozen=True)
class Ran:
    """What a run of pytest came to: the tests that failed; without any, whether it was late or could not run tests."""

    failed: tuple[str, ...]
    broken: Literal["", "late", "stopped"] = ""

    @property
    def passed(self) -> bool:
        """Return whether nothing failed."""
        return not self.failed and not self.broken


@dataclass(frozen=True)
class Checkout:
    """A scratch checkout at `root`."""

    root: Path

    @contextlib.contextmanager
    def planted(self, places: Mapping[Fault, Place]) -> Iterator[None]:
        """Have faults in the sources meanwhile."""
        by_file = defaultdict[Path, list[tuple[Fault, Unit]]](list)
        for fault, place in places.items():
            by_file[place.path].append((fault, place.unit))
        sound = {path: path.read_bytes() for path in by_file}
        try:
            for path, faults in by_file.items():
                _write(path, planted(sound[path], faults))
            yield
        finally:
            for path, source in sound.items():
                _write(path, source)

    def run(self, arguments: Iterable[str], *, bound_s: float, environ: Mapping[str, str] | None = None) -> Ran:
        """Run pytest; one that takes longer than the bound is broken."""
        results, listed = self.root / "out/mutations", self.root / "out/mutations-arguments"
        shutil.rmtree(results, ignore_errors=True)
        listed.parent.mkdir(exist_ok=True)
        listed.write_text("\n".join(arguments) + "\n")
        pytest = [str(self.root / ".venv/bin/python"), "-m", "pytest", "-q", f"--timeout={TEST_TIMEOUT_S}"]
        process = subprocess.Popen(
            [*pytest, "-o", f"cache_dir={results}", f"@{listed}"],
            cwd=self.root,
            env={**_surroundings(self.root), **(environ or {})},
            stdout=(self.root / "out/mutations.log").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = _await(process, bound_s)
        last = results / "v/cache/lastfailed"
        failed = tuple(json.loads(last.read_text())) if last.exists() else ()
        if failed or code in {0, NOTHING_RAN, THREADS_LEFT}:
            return Ran(failed)
        return Ran((), "late" if code is None else "stopped")


def open_checkout(source: Path, root: Path, commit: str) -> Checkout:
    """Make the scratch checkout, or put the one that is there back to the commit."""
    if not root.exists():
        _git(source, "worktree", "add", "--detach", str(root), commit)
    _git(root, "checkout", "--force", "--detach", commit)
    _link_environment(source / ".venv", root)
    (root / ".stepbench").mkdir(exist_ok=True)
    for name in [*(f".stepbench/{tool}" for tool in TOOLS), "node_modules"]:
        if (source / name).exists() and not (root / name).exists():
            (root / name).symlink_to(source / name)
    if (source / CHARTS).exists():
        shutil.copy(source / CHARTS, root / CHARTS)
    return Checkout(root)


def _link_environment(source: Path, root: Path) -> None:
    """Make a virtual environment of links, with programs that name its interpreter and a package of its own."""
    packages = next(source.glob("lib/python*/site-packages"))
    own = root / ".venv" / packages.relative_to(source)
    if own.exists():
        return
    own.mkdir(parents=True)
    (root / ".venv/bin").mkdir()
    shutil.copy(source / "pyvenv.cfg", root / ".venv")
    for entry in packages.iterdir():
        (own / entry.name).symlink_to(entry)
    (editable,) = own.glob("__editable__.stepbench-*.pth")
    editable.unlink()
    editable.write_text(f"{root / 'layers/core/src'}\n{root / 'tools/src'}\n")
    for program in (source / "bin").iterdir():
        mine = root / ".venv/bin" / program.name
        if program.is_symlink() or not (text := program.read_bytes()).startswith(b"#!"):
            mine.symlink_to(program.resolve())
        else:
            mine.write_bytes(text.replace(str(source).encode(), str(root / ".venv").encode()))
            mine.chmod(0o755)


def _surroundings(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "STEPBENCH_HOME"}}
    return {
        **kept,
        "PATH": f"{root / '.venv/bin'}{os.pathsep}{kept.get('PATH', '')}",
        "VIRTUAL_ENV": str(root / ".venv"),
    }


def _await(process: subprocess.Popen[bytes], bound_s: float) -> int | None:
    """Return the exit code, or None after the bound; the suite ends what it has started when it is terminated."""
    try:
        return process.wait(bound_s)
    except subprocess.TimeoutExpired:
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return None


def _write(path: Path, source: bytes) -> None:
    """Write a module and forget its compiled form, which Python knows by size and second alone."""
    path.write_bytes(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)
