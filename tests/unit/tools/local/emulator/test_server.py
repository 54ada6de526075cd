"""Which emulator is started."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.samples.ports import UNSERVED_PORT

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.emulator.server import (
    CHOICE,
    KINDS,
    Emulator,
    emulator_name,
    localstack_environment,
    runs_tasks,
    start_emulator,
)
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer as an emulator."""
        self.send_response(200 if self.path == "/_localstack/health" else 404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Write nothing."""


@pytest.fixture
def running() -> Iterator[str]:
    """Serve what answers like an emulator that somebody else has started."""
    server = HTTPServer((LOOPBACK, 0), _Healthy)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://{LOOPBACK}:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_it_is_ministack_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable is none."""
    for chosen in ("", "ministack"):
        monkeypatch.setenv(CHOICE, chosen)
        assert emulator_name() == KINDS["ministack"].name
    monkeypatch.setenv(CHOICE, "localstack")
    assert emulator_name() == "LocalStack 4.14.0"


@pytest.mark.parametrize(("chosen", "expected"), [("", True), ("localstack", False), ("http://127.0.0.1:4566", False)])
def test_fargate_is_on_where_its_tasks_run(monkeypatch: pytest.MonkeyPatch, chosen: str, *, expected: bool) -> None:
    """Elsewhere a plan that wants it is refused; a stack that could not be deployed would be worse."""
    monkeypatch.setenv(CHOICE, chosen)
    assert runs_tasks() is expected


def test_one_that_runs_is_taken_and_no_process_of_it_is_ours(
    tmp_path: Path, running: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So nobody ends it; reports name it by where it is, since it may be anything."""
    monkeypatch.setenv(CHOICE, f"{running}/")
    found = start_emulator(Paths(tmp_path, tmp_path))
    assert found == Emulator(f"the emulator at {running}", running, ())


@pytest.mark.parametrize("chosen", ["moto", "127.0.0.1:4566", "http://"])
def test_an_unknown_one_is_refused_with_what_there_is(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error would start the other one otherwise."""
    monkeypatch.setenv(CHOICE, chosen)
    with pytest.raises(LocalEnvironmentError, match=rf"{CHOICE} is '{chosen}'.*ministack or localstack.*http"):
        emulator_name()


def test_one_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """We do not start what is somebody else's."""
    endpoint = f"http://{LOOPBACK}:{UNSERVED_PORT}"
    monkeypatch.setenv(CHOICE, endpoint)
    with pytest.raises(LocalEnvironmentError, match=f"{endpoint}, where no emulator answers; start it first"):
        start_emulator(Paths(tmp_path, tmp_path))


def install_for_localstack(paths: Paths) -> None:
    """Put empty files where LocalStack's own are looked for."""
    for name in ("dynamodb/DynamoDBLocal.jar", "localstack/loopback.so"):
        (paths.installed / name).parent.mkdir(parents=True)
        (paths.installed / name).touch()


@pytest.mark.parametrize(
    ("chosen", "variable"),
    [("ministack", "LAMBDA_ACCOUNT_CONCURRENCY"), ("localstack", "LAMBDA_LIMITS_CONCURRENT_EXECUTIONS")],
)
def test_each_gets_the_accounts_concurrency_by_its_own_name(
    chosen: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of another's is passed over without a word; what is started here writes its own down, and ends."""
    paths = Paths(tmp_path, tmp_path / "home")
    install_for_localstack(paths)
    for tool in (KINDS[chosen].tool, "lambda"):
        program = paths.installed / "venvs" / tool / "bin/python"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\nenv > "$HOME/environment"\n')
        program.chmod(0o755)
    monkeypatch.setenv(CHOICE, chosen)
    with pytest.raises(LocalEnvironmentError, match="the process ended before that"):
        start_emulator(paths, wait_scale=0.5, concurrency=7)
    given = (paths.data / "emulator/environment").read_text().splitlines()
    assert {f"{variable}=7", "SFN_WAIT_SCALE=0.5"} <= set(given)


def test_localstack_finds_dynamodb_local_where_its_installer_would_put_it(tmp_path: Path) -> None:
    """Otherwise it fetches one from a place that is not in the lock; also the second time, in the same home."""
    paths, scratch = Paths(tmp_path, tmp_path / "home"), tmp_path / "home/data/emulator"
    with pytest.raises(LocalEnvironmentError, match="dynamodb is missing; run `make setup-localstack`"):
        localstack_environment(paths, 1, scratch)
    install_for_localstack(paths)
    for _ in range(2):
        made = localstack_environment(paths, 4711, scratch)
    assert (scratch / "var/lib/localstack/lib/dynamodb-local/2/DynamoDBLocal.jar").exists()
    assert (made["GATEWAY_LISTEN"], made["FILESYSTEM_ROOT"]) == ("127.0.0.1:4711", str(scratch))
