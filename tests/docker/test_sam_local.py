"""
Every function with its sample events in Docker, in the order of a run, against an embedded environment of its own.

Slow (a container each), so no part of `make test`: `make test-sam-local`, and each night.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.listening import listening_addresses

from stepbench.compiled import processor
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.deploy import python_runtime
from stepbench_tools.local.invoking import STEPS
from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.sam_local import bridge_address, forwarded

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPBENCH = Path(sys.executable).with_name("stepbench")
LIMIT_S, PULL_S = 2400, 300


@pytest.fixture(scope="module")
def bridge() -> str:
    """Return Docker's bridge's address, where Docker and a base image are."""
    try:
        address = bridge_address()
    except LocalEnvironmentError as error:
        pytest.skip(f"sam local: {error}")
    runtime = python_runtime(find_paths({}, Path.cwd()))
    image = f"public.ecr.aws/lambda/{runtime.replace('python', 'python:')}-{processor()}"
    has_image = any(
        subprocess.run(["docker", *asked, image], capture_output=True, check=False, timeout=PULL_S).returncode == 0
        for asked in (("image", "inspect"), ("pull",))
    )
    return (
        address if has_image else pytest.skip(f"sam local: {image} is neither here nor can be pulled; make sam-image")
    )


@pytest.fixture(scope="module")
def environment(bridge: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Keep an environment up, without the user's own AWS settings."""
    assert bridge
    home = tmp_path_factory.mktemp("sam-local")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    variables["STEPBENCH_HOME"] = str(home)
    up = subprocess.run([STEPBENCH, "up"], env=variables, capture_output=True, text=True, check=False, timeout=600)
    assert up.returncode == 0, up.stderr
    yield variables
    subprocess.run([STEPBENCH, "down"], env=variables, capture_output=True, check=True, timeout=120)


@pytest.mark.timeout(LIMIT_S + 700)
@pytest.mark.parametrize("how", ["--docker", "--restricted"])
def test_every_function_answers_in_docker(environment: dict[str, str], how: str) -> None:
    """A package that works in a process here may lack a file, a right or an address in Lambda's own surroundings."""
    command = [str(STEPBENCH), "invoke", how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.endswith("answered")] == [], done.stderr
    assert (len(lines), done.returncode) == (len(STEPS), 0)


def test_the_environment_is_open_to_containers_only(bridge: str) -> None:
    """On every interface, the emulator would be anybody's on the network."""
    with forwarded(bridge, [0]):
        assert {address.rpartition(":")[0] for address in listening_addresses([os.getpid()])} == {bridge}
