"""
`sam build` and `sam deploy` of the unmodified template, against the emulator.

Layers of a build are packed once, as archives, for all deployments of it: SAM CLI packs each folder anew for each
deployment, 23 s of a core for the 480 MB of ours, most of what `up` takes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.compiled import processor
from stepbench.digits import counted, duration
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.archives import write_archive
from stepbench_tools.local.processes import describe_process, log_tail
from stepbench_tools.local.programs import run_program
from stepbench_tools.local.sam import NOWHERE, deploy_arguments, emulator_account, parameter_overrides, run_sam, sam_log
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.state import Server


PACKED = "packed.yaml"
_CONTENT = re.compile(r"^(\s+ContentUri: )(\S+)$", re.MULTILINE)


def pack_layers(artefacts: Path, archives: Path) -> None:
    """
    Write beside a built template another one (`PACKED`), whose layers are archives.

    Args:
        artefacts: the folder with `template.yaml` and the layers' folders, as `sam build` leaves it.
        archives: the folder of archives: those of layers that have not changed are kept, all others go.
    """
    archives.mkdir(exist_ok=True)
    template = (artefacts / "template.yaml").read_text("utf-8")
    needed = {name: _archive(artefacts / name, archives) for _, name in _CONTENT.findall(template)}
    for path in set(archives.iterdir()) - set(needed.values()):
        path.unlink()
    (artefacts / PACKED).write_text(_CONTENT.sub(lambda found: f"{found[1]}{needed[found[2]]}", template), "utf-8")


def _archive(folder: Path, archives: Path) -> Path:
    """Return the archive of a folder's files, under a name by their names, modes and contents."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    digest = hashlib.sha256()
    for name, path in files.items():
        digest.update(f"{name}\0{path.stat().st_mode:o}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    archive = archives / f"{folder.name}-{digest.hexdigest()[:32]}.zip"
    if not archive.exists():
        partial = archive.with_suffix(".partial")
        write_archive(files, partial)
        partial.rename(archive)
    return archive


EVERY_S = 20.0
"""How often the step is reported again while nothing new begins."""
_LAYER = "AWS::Serverless::LayerVersion"
_BEGUN = re.compile(r"^(?:Building layer '|Valid cache found, .* following layers \()(\w+)", re.MULTILINE)


def layers_begun(log: str) -> list[str]:
    """Return the layers that SAM CLI has begun to build or to take from its cache, each once, in that order."""
    return list(dict.fromkeys(_BEGUN.findall(log)))


@dataclass
class BuildProgress:
    """
    The progress of a build is notified when a layer begins, and every `EVERY_S` with the time that it has taken.

    Attributes:
        log: where SAM CLI writes.
        layers: how many the template has.
        notify: prints a sentence.
        now_s: a clock that counts seconds.
    """

    log: Path
    layers: int
    notify: Callable[[str], None]
    now_s: Callable[[], float] = time.monotonic
    _begun: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start_s = self._notified_s = self.now_s()

    def look(self) -> None:
        """Read the log, and notify what is new."""
        begun = layers_begun(self.log.read_text(errors="replace")) if self.log.exists() else []
        now_s = self.now_s()
        if begun == self._begun and now_s - self._notified_s < EVERY_S:
            return
        self._begun, self._notified_s = begun, now_s
        what = f"{begun[-1]}, {len(begun)} of {counted(self.layers, 'layer')}" if begun else "its functions"
        self.notify(f"building {what}, after {duration(now_s - self._start_s)}")


def count_layers(template: Path) -> int:
    """Return how many layers a template has."""
    return template.read_text(encoding="utf-8").count(_LAYER)


STACK = "stepbench"
ARTIFACTS = "stepbench-artifacts"
BUILT_FROM = ("template.yaml", "functions", "layers", "statemachines", "stacks", "events")
BUILD_S, DEPLOY_S = 900, 600
LOCK_LIMIT_S = 1_800.0
"""Nobody waits longer for another's build and deployment, which have these limits, and servers to start between."""
_LOCK_POLL_S = 0.2
_STAMP = "built-from"
_NOT_SOURCES = frozenset({"__pycache__"})
_NOT_SOURCE_ENDINGS = (".egg-info", ".pyc")


@dataclass(frozen=True)
class Deployment:
    """A deployment goes to an endpoint; `parameters` are the template's, `emulator` is the server that may end."""

    paths: Paths
    endpoint: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    stack: str = STACK
    template: str = "template.yaml"
    emulator: Server | None = None


def python_runtime(paths: Paths) -> str:
    """
    Return the Lambda runtime of the interpreter that runs functions here (`python3.11`).

    Raises:
        LocalEnvironmentError: it is not installed, or does not say.
    """
    interpreter = paths.tool("lambda", "python")
    program = "import sys; print('python%d.%d' % sys.version_info[:2])"
    try:
        return run_program([interpreter, "-c", program], f"{interpreter}").strip()
    except LocalEnvironmentError as error:
        message = f"{error}; run `make setup` again"
        raise LocalEnvironmentError(message) from error


def fingerprint(root: Path, parts: Iterable[str], settings: Mapping[str, str]) -> str:
    """Return SHA-256 over names and contents of the files and over the settings: equal means that nothing changed."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode())
    for part in parts:
        top = root / part
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and _is_source(path.relative_to(root)):
                digest.update(f"{path.relative_to(root)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _is_source(path: Path) -> bool:
    return not any(part in _NOT_SOURCES or part.endswith(_NOT_SOURCE_ENDINGS) for part in path.parts)


@contextlib.contextmanager
def exclusive_lock(directory: Path, notify: Callable[[str], None], *, limit_s: float = LOCK_LIMIT_S) -> Iterator[None]:
    """
    Wait until nobody else works in the directory, and lock others out; the lock ends with the process.

    Raises:
        LocalEnvironmentError: somebody else has it after `limit_s`, with who that is.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a+") as lock:
        _await_lock(lock, directory, notify, limit_s)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _await_lock(lock: TextIO, directory: Path, notify: Callable[[str], None], limit_s: float) -> None:
    """Take the lock; notify of each process that has it before us."""
    until_s, holder = time.monotonic() + limit_s, ""
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        lock.seek(0)
        if (found := describe_process(lock.read())) != holder:
            holder = found
            notify(f"waiting, for {limit_s / 60:.0f} minutes at most, until {holder} has built or deployed")
        if time.monotonic() > until_s:
            message = f"{directory} is still locked by {holder} after {limit_s / 60:.0f} minutes; end that, or wait"
            raise LocalEnvironmentError(message)
        time.sleep(_LOCK_POLL_S)


def build(
    paths: Paths,
    runtime: str,
    template: str = "template.yaml",
    *,
    architecture: str = "",
    notify: Callable[[str], None] = lambda _: None,
) -> str:
    """
    Run `sam build`, unless the last build was of the same sources for the same runtime and architecture.

    Layers are built for both: deployed as another architecture's, nothing of theirs could be imported. Without one
    it is this machine's, on which the embedded run has its functions. `notify` hears which layer is under way.

    Returns:
        The fingerprint of what is built.

    Raises:
        LocalEnvironmentError: the build failed; with the end of its output.
    """
    stamp = paths.build / _STAMP
    target = {"PythonRuntime": runtime, "Architecture": architecture or processor()}
    wanted = fingerprint(paths.root, (*BUILT_FROM, template), target)
    if stamp.exists() and stamp.read_text() == wanted:
        return wanted
    stamp.unlink(missing_ok=True)
    arguments = ["build", "--template-file", paths.root / template, "--build-dir", paths.build / "artefacts"]
    arguments += ["--cached", "--cache-dir", paths.build / "cache", "--base-dir", paths.root]
    arguments += parameter_overrides(paths, target)
    progress = BuildProgress(sam_log(paths, "build"), count_layers(paths.root / template), notify)
    run_sam(
        paths,
        [str(argument) for argument in arguments],
        timeout_s=BUILD_S,
        account=emulator_account(NOWHERE),
        look=progress.look,
    )
    pack_layers(paths.build / "artefacts", paths.build / "archives")
    stamp.write_text(wanted)
    return wanted


def deploy(deployment: Deployment, built: str) -> bool:
    """
    Run `sam deploy` to the emulator, unless this very build is there already with the same parameters.

    Args:
        deployment: what to deploy, to where.
        built: the build's fingerprint.

    Returns:
        Whether anything was deployed.

    Raises:
        LocalEnvironmentError: the deployment failed; with the end of its output.
    """
    mark = json.dumps([built, deployment.endpoint, sorted(deployment.parameters.items())])
    stamp = deployment.paths.data / f"deployed-{deployment.stack}"
    if stamp.exists() and stamp.read_text() == mark:
        return False
    stamp.unlink(missing_ok=True)
    try:
        local_client("s3", deployment.endpoint).create_bucket(Bucket=ARTIFACTS)
    except (BotoCoreError, ClientError) as error:
        words = log_tail(Path(deployment.emulator.log)) if deployment.emulator else ""
        message = f"the emulator at {deployment.endpoint} takes no deployment: {error}{words}"
        raise LocalEnvironmentError(message) from error
    arguments = deploy_arguments(deployment.paths, deployment.stack, deployment.parameters, ARTIFACTS, PACKED)
    account = emulator_account(deployment.endpoint)
    run_sam(deployment.paths, arguments, timeout_s=DEPLOY_S, account=account, needs=deployment.emulator)
    stamp.write_text(mark)
    return True
