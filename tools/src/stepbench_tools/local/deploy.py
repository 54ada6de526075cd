"""`sam build` and `sam deploy` of the unmodified template, against the emulator."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.compiled import processor
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.build_progress import PACKED, BuildProgress, count_layers, pack_layers
from stepbench_tools.local.processes import describe_process, log_tail
from stepbench_tools.local.programs import run_logged, run_program
from stepbench_tools.local.quota_remedies import quota_remedy
from stepbench_tools.local.stack import REGION, local_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.state import Server

STACK = "stepbench"
ARTIFACTS = "stepbench-artifacts"
BUILT_FROM = ("template.yaml", "functions", "layers", "statemachines", "stacks", "events")
BUILD_S, DEPLOY_S = 900, 600
LOCK_LIMIT_S = 1_800.0
"""Nobody waits longer for another's build and deployment, which have these limits, and servers to start between."""
_LOCK_POLL_S = 0.2
NOWHERE = "http://127.0.0.1:9"
"""An endpoint for commands that have no business with AWS."""
_STAMP = "built-from"
_NOT_INHERITED = ("AWS_", "SAM_", "MAKE", "MFLAGS")
"""How variables begin that would reach SAM CLI, or the make that it runs below a `make` of the user's."""
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
    arguments += _overrides(paths, target)
    progress = BuildProgress(_sam_log(paths, "build"), count_layers(paths.root / template), notify)
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


def deploy_arguments(
    paths: Paths, stack: str, parameters: Mapping[str, str], bucket: str, template: str = "template.yaml"
) -> list[str]:
    """Return what makes SAM CLI deploy the last build without a question; artefacts go to the bucket."""
    return [
        *("deploy", "--template-file", str(paths.build / "artefacts" / template)),
        *("--stack-name", stack, "--s3-bucket", bucket),
        *("--capabilities", "CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"),
        *("--no-confirm-changeset", "--no-fail-on-empty-changeset", "--no-progressbar"),
        *_overrides(paths, parameters),
    ]


def _overrides(paths: Paths, parameters: Mapping[str, str]) -> list[str]:
    """
    Pass parameters by file (JSON is YAML): on the command line, SAM CLI cuts a value off at its first blank.

    The file's name is not a URL in spite of its beginning: SAM CLI does not decode %20.
    """
    path = paths.data / "parameters.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({name: value for name, value in parameters.items() if value}))
    return ["--parameter-overrides", f"file://{path}"]


def run_sam(  # noqa: PLR0913 -- a command, and what bounds it
    paths: Paths,
    arguments: list[str],
    *,
    timeout_s: float,
    account: Mapping[str, str],
    needs: Server | None = None,
    look: Callable[[], None] | None = None,
) -> None:
    """
    Run SAM CLI; an interrupt ends its children (pip, above all) with it.

    Args:
        paths: of its log, its settings and temporary files.
        arguments: command and options.
        timeout_s: after which it is ended.
        account: the environment variables that say which account, region and endpoint it works on.
        needs: the emulator's server, if it works on one of ours; its end ends the command.
        look: called meanwhile, to notify how far it is.

    Raises:
        LocalEnvironmentError: it failed, was not done in time, or the emulator has ended; with the end of its output,
            and its remedy.
    """
    try:
        run_logged(
            [paths.tool("sam", "sam"), *arguments],
            f"`sam {arguments[0]}`",
            log=_sam_log(paths, arguments[0]),
            timeout_s=timeout_s,
            env=sam_environment(paths, account),
            cwd=paths.root,
            needs=needs,
            look=look,
        )
    except LocalEnvironmentError as error:
        if not (remedy := quota_remedy(str(error))):
            raise
        message = f"{error}{remedy}"
        raise LocalEnvironmentError(message) from error


def _sam_log(paths: Paths, command: str) -> Path:
    return paths.logs / f"sam-{command}.log"


def sam_environment(paths: Paths, account: Mapping[str, str]) -> dict[str, str]:
    """
    Return an environment in which SAM CLI has settings of its own and no telemetry.

    PATH begins with the Lambda environment, whose interpreter has the name that `BuildMethod` asks for.
    """
    paths.sam_settings.mkdir(parents=True, exist_ok=True)
    scratch = paths.data / "tmp"  # SAM CLI leaves empty folders in it
    scratch.mkdir(parents=True, exist_ok=True)
    metadata = {"telemetryEnabled": False, "lastVersionCheck": time.time()}
    (paths.sam_settings / "metadata.json").write_text(json.dumps(metadata))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    return {
        **inherited,
        "TMPDIR": str(scratch),
        "PATH": f"{paths.tool('lambda', 'python').parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "SAM_CLI_TELEMETRY": "0",
        "__SAM_CLI_APP_DIR": str(paths.sam_settings),
        **account,
    }


def emulator_account(endpoint: str) -> dict[str, str]:
    """Return variables by which SAM CLI and boto3 reach an emulator, and nobody's account."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "SAM_CLI_POLL_DELAY": "0.5",
    }
