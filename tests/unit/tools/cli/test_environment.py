"""The commands about this machine."""

from __future__ import annotations

import json
import socket
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stepbench.contracts.target import target_models
from stepbench.errors import PlanError
from stepbench.load_host import Place
from stepbench.load_host import __main__ as program
from stepbench_tools.cli import main
from stepbench_tools.cli.environment import _listening
from stepbench_tools.local import invoking, sam_local, session, stack
from stepbench_tools.local.environment import EnvironmentOptions
from stepbench_tools.local.invoking import Answer, Step
from stepbench_tools.local.state import EnvironmentState, Server


def test_stores_says_which_are_emulated(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody may take the emulator's latencies for AWS's."""
    assert main(["stores"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert rows.keys() == target_models().keys()
    assert "emulated" in rows["s3"]
    assert "emulated" in rows["dynamodb"]
    assert "real" in rows["etcd"]
    assert "no store under test" in rows["reference"]


def test_up_lists_servers_and_what_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The endpoints are what the next command of a user needs."""
    server = Server(name="etcd", version="3.5.1", endpoint="127.0.0.1:1", processes=())
    state = EnvironmentState(servers=(server,), skipped={"postgresql": "no compiler"}, complete=True)
    asked: list[EnvironmentOptions] = []

    def start(_paths: object, _notify: object, options: EnvironmentOptions) -> tuple[EnvironmentState, str]:
        asked.append(options)
        return state, "http://127.0.0.1:2/?token=a"

    monkeypatch.setattr(session, "start_environment", start)
    assert main(["up", "--etcd-members", "3", "--cassandra"]) == 0
    capsys.readouterr()
    assert main(["up"]) == 0
    assert asked == [EnvironmentOptions(3, frozenset({"cassandra"})), EnvironmentOptions()]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["etcd", "127.0.0.1:1", "3.5.1"]
    assert lines[1].split(maxsplit=1) == ["postgresql", "skipped: no compiler"]
    assert lines[2].split() == ["dashboard", "http://127.0.0.1:2/?token=a"]


@pytest.mark.parametrize(
    ("ended", "said"),
    [(["python (pid 3)", "etcd (pid 1)", "python (pid 2)"], "ended etcd, 2 python\n"), ([], "nothing was running\n")],
)
def test_down_says_what_it_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: list[str], said: str
) -> None:
    """It goes to stderr: there is no data in it."""
    monkeypatch.setattr(session, "stop_environment", lambda *_, **__: ended)
    assert main(["down"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == said


@pytest.mark.parametrize(
    ("options", "asked"),
    [([], (False, None)), (["--keep"], (True, None)), (["--fetch", "--out", "runs"], (False, Path("runs")))],
)
def test_down_does_with_runs_what_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str], asked: tuple[bool, Path | None]
) -> None:
    """Nothing is fetched to a folder that was not asked for."""
    seen: list[tuple[bool, Path | None]] = []

    def stop(_paths: object, _notify: object, *, out: Path | None, keep: bool) -> list[str]:
        seen.append((keep, out))
        return []

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "stop_environment", stop)
    assert main(["down", *options]) == 0
    assert seen == [asked]
    assert (tmp_path / "runs").exists() is (asked[1] is not None)


class Deployed:
    """A stack that takes load from hosts, or does not."""

    name = "measured"

    def __init__(self, **outputs: str) -> None:
        self.outputs = {"LoadQueueUrl": "https://queue.fifo", **outputs}


def test_a_load_host_serves_the_stack_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it needs to know, the stack tells."""
    started: list[Place] = []
    monkeypatch.setattr(stack, "remote_stack", lambda _name: Deployed(LoadHostRoleArn="arn"))
    monkeypatch.setattr(program, "run_load_host", started.append)
    assert main(["load-host", "--stack", "measured", "--at-once", "7", "--machine", "desk"]) == 0
    assert started == [Place("https://queue.fifo", "measured-RunWriter", 7, "desk")]


def test_a_stack_that_takes_no_load_from_hosts_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its plans would be refused, and the host would wait for ever."""
    monkeypatch.setattr(stack, "remote_stack", lambda _name: Deployed())
    assert main(["load-host", "--stack", "measured"]) == 4
    assert "deploy it with LoadHost=own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error", "restricted"),
    [([], "", []), (["--docker"], "", [False]), (["--restricted"], "PlanError: no", [True])],
)
def test_invoke_says_which_answered(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    error: str,
    restricted: list[bool],
) -> None:
    """A line each on stdout and what it answered, the count on stderr, and an exit code for scripts."""
    asked: list[object] = []

    def invoke_steps(steps: list[Step], *_: object) -> list[Answer]:
        return [Answer(step, error, value={"ends": "\x1b[2J"}) for step in steps]

    def in_docker(*_: object, restricted: bool) -> nullcontext[None]:
        asked.append(restricted)
        return nullcontext()

    monkeypatch.setattr(session, "local_session", lambda *_: nullcontext(SimpleNamespace(stack=None)))
    monkeypatch.setattr(invoking, "invoke_steps", invoke_steps)
    monkeypatch.setattr(sam_local, "sam_local", in_docker)
    monkeypatch.setattr(invoking, "torn_down", lambda *_: nullcontext())
    assert main(["invoke", "RunWriter", *options]) == bool(error)
    said = capsys.readouterr()
    assert said.out.startswith("ValidatePlan ")
    assert (error or "answered") in said.out
    answer = said.out.partition("\nRunWriter ")[2].partition("\n")[2]
    assert error or json.loads(answer) == {"ends": "\x1b[2J"}
    assert "\x1b" not in said.out
    assert f"{0 if error else 4} of 4 answered without an error" in said.err
    assert asked == restricted


def test_invoke_refuses_a_function_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is started; with those that there are."""
    assert main(["invoke", "RunWritr"]) == 2
    assert (
        'FUNCTION: has no sample event (got RunWritr). Did you mean "RunWriter"? There are ' in capsys.readouterr().err
    )


def test_invoke_of_a_named_function_that_the_stack_lacks_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing was asked, so nothing has answered."""
    monkeypatch.setattr(session, "local_session", lambda *_: nullcontext(SimpleNamespace(stack=None)))
    monkeypatch.setattr(invoking, "invoke_steps", lambda steps, *_: [Answer(step, asked=False) for step in steps])
    assert main(["invoke", "BootstrapDsql"]) == 2
    assert "left out: not in this stack" in capsys.readouterr().out


class Upstream:
    """Implements as much of an upstream as a server holds."""

    def send(self, request: Any) -> None:  # noqa: ANN401 -- nobody asks
        """Answer nothing."""


def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    """A bare "[Errno 98]" said neither which, nor how else."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            PlanError, match=rf"--port: cannot be listened on \(.+\) \(got {port}\)\. Name another port"
        ):
            _listening(port, cast("Any", Upstream()))
