"""One deployed stack for all end-to-end tests, kept warm by `stepbench up`, gone with `stepbench down`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from botocore.credentials import Credentials
from tests.end_to_end.api_client import ApiClient
from tests.end_to_end.deployment import ROOT, TASKS, UP_LIMIT_S, Deployment
from tests.end_to_end.own_function import OwnFunction

from stepbench_tools.local.deploy import exclusive_lock
from stepbench_tools.local.emulator.server import DECISIONS, TASKS_AT_ONCE
from stepbench_tools.local.processes import await_end

INSTALL_LIMIT_S = 300


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Return `stepbench` where the Makefile's own rule has installed what a run needs, and nothing that only tests do.

    The tests' libraries hid that `calibrate` lacked one of its own. All processes of this run of the suite share it.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "installed"  # xdist's workers have one each
    with exclusive_lock(folder, print):
        if not (folder / ".run").exists():
            make = ["make", "--silent", f"VENV={folder}", f"{folder}/.run"]
            subprocess.run(make, check=True, cwd=ROOT, timeout=INSTALL_LIMIT_S)
    return folder / "bin" / "stepbench"


@pytest.fixture(scope="session")
def deployment(installed: Path) -> Iterator[Deployment]:
    """`stepbench up`, and at the end `stepbench down`, after which none of its processes is left."""
    with tempfile.TemporaryDirectory(prefix="stepbench-e2e-") as folder:
        home, out = Path(folder, "home"), Path(folder, "out")
        out.mkdir()
        variables = {DECISIONS: str(out / "decisions.jsonl"), TASKS_AT_ONCE: str(TASKS), "PYTHONPATH": ""}
        deployment = Deployment(home, out, variables, installed)
        up = deployment.command("up", limit_s=UP_LIMIT_S)
        assert up.code == 0, up.stderr
        yield deployment
        processes = [process for server in deployment.state.servers for process in server.processes]
        children = [child for each in processes for child in psutil.Process(each.pid).children(recursive=True)]
        down = deployment.command("down")
        assert down.code == 0, down.stderr
        assert await_end(children, 0) == []
        assert [each.pid for each in processes if each.find()] == []


@pytest.fixture(scope="session")
def own(deployment: Deployment) -> OwnFunction:
    """Return a function of somebody's beside the stack, which may measure it."""
    own = OwnFunction(deployment.stack)
    own.deploy()
    own.allow()
    return own


@pytest.fixture(scope="session")
def api(deployment: Deployment) -> ApiClient:
    """Return a client of the default team: the account itself."""
    return ApiClient(deployment)


@pytest.fixture(scope="session")
def other_team(deployment: Deployment) -> ApiClient:
    """Return a client of another team: an assumed role."""
    iam, sts = deployment.stack.aws("iam"), deployment.stack.aws("sts")
    everybody = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [everybody]})
    role = iam.create_role(RoleName="payments", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    may_call = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [may_call]})
    iam.put_role_policy(RoleName="payments", PolicyName="call", PolicyDocument=policy)
    given = sts.assume_role(RoleArn=role, RoleSessionName="ci")["Credentials"]
    return ApiClient(deployment, Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"]))
