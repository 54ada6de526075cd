"""The command line: what is accepted, what is said where, and with which exit code it ends."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import NoCredentialsError, NoRegionError

from stepbench import __version__
from stepbench.cli import main
from stepbench.contracts.plan import Plan
from stepbench.contracts.target import target_models
from stepbench.errors import LocalEnvironmentError
from stepbench.local import commands, session
from stepbench.local.commands import Ending
from stepbench.local.paths import Paths
from stepbench.local.state import EnvironmentState, Server
from stepbench.local.streams import data_console, message_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.local.commands import Options

PHASES = [{"name": "p", "load": [{"rate_per_s": 20, "count": 200}]}]
TRIAL = {"target": {"store": "s3"}, "phases": PHASES}
PLAN = {"name": "one", "trials": [TRIAL]}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no folder for results where the tests are run from."""
    monkeypatch.chdir(tmp_path)


def written(*trials: dict[str, Any], **fields: object) -> str:
    """Write a plan's file, valid unless its trials or fields say otherwise, and return its path."""
    Path("plan.json").write_text(json.dumps({**PLAN, "trials": trials or [TRIAL], **fields}))
    return "plan.json"


@pytest.fixture
def plan() -> str:
    """Return the path of a valid plan's file."""
    return written()


class Recorder:
    """The recorder stands in for a run: it remembers what it was asked, and answers as told."""

    def __init__(self, answer: Ending | BaseException) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, Sequence[Plan], Options]] = []

    def __call__(self, where: Any, plans: Sequence[Plan], options: Options, *_consoles: object) -> Ending:  # noqa: ANN401 -- paths, or a name
        """Record a call, and answer."""
        self.asked.append((where, plans, options))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def here(monkeypatch: pytest.MonkeyPatch, answer: Ending | BaseException) -> Recorder:
    """Record the arguments of a run, in place of running."""
    recorder = Recorder(answer)
    monkeypatch.setattr(commands, "run_here", recorder)
    return recorder


@pytest.mark.parametrize(("ending", "code"), [(Ending.WHOLE, 0), (Ending.NOT_WHOLE, 1), (Ending.THRESHOLD_MISSED, 3)])
def test_a_run_ends_with_0_only_if_all_of_it_went_through(
    monkeypatch: pytest.MonkeyPatch, plan: str, ending: Ending, code: int
) -> None:
    """A script has to learn of a failed, stopped or skipped trial, and of a missed threshold."""
    recorder = here(monkeypatch, ending)
    assert main(["run", plan]) == code
    [(where, plans, options)] = recorder.asked
    assert isinstance(where, Paths)
    assert [each.name for each in plans] == ["one"]
    assert (options.out, options.json, options.floors) == (Path("out"), False, True)


def test_a_stacks_name_leads_to_the_stack(monkeypatch: pytest.MonkeyPatch, plan: str) -> None:
    """The command works alike against AWS; nothing is started here."""
    recorder = Recorder(answer=Ending.WHOLE)
    monkeypatch.setattr(commands, "run_there", recorder)
    assert main(["run", plan, "--stack", "bench", "--json", "--out", "results", "--no-floors"]) == 0
    [(where, _, options)] = recorder.asked
    assert where == "bench"
    assert (options.out, options.json, options.floors) == (Path("results"), True, False)


def test_one_bad_plan_among_good_ones_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before anything is created, with path, value and remedy on stderr and nothing on stdout."""
    recorder = here(monkeypatch, answer=Ending.WHOLE)
    assert main(["run", "quick-unloaded", written({**TRIAL, "writers": 0})]) == 2
    assert recorder.asked == []
    said = capsys.readouterr()
    assert said.out == ""
    assert "trials[0].writers" in said.err
    assert "(got 0)" in said.err


def test_a_plan_over_its_budget_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate stands beside the budget, and so does the remedy."""
    phases = [{"name": "p", "load": [{"rate_per_s": 1_000, "duration_s": 10_000}]}]
    assert main(["validate", written({**TRIAL, "phases": phases}, budget_usd=0.01)]) == 2
    assert "budget_usd" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LocalEnvironmentError("etcd does not start"), "stepbench: etcd does not start\n"),
        (KeyboardInterrupt(), "stepbench: interrupted\n"),
        (NoCredentialsError(), "stepbench: AWS: Unable to locate credentials\n"),
        (NoRegionError(), "stepbench: AWS: no region is set; set AWS_DEFAULT_REGION"),
        (
            ModuleNotFoundError("No module named 'rich'"),
            "stepbench: No module named 'rich'; install stepbench[analysis,local,report,stores]",
        ),
        (OSError(28, "No space left on device"), "stepbench: [Errno 28] No space left on device\n"),
        (subprocess.TimeoutExpired("etcd", 10), "stepbench: Command 'etcd' timed out after 10 seconds\n"),
    ],
)
def test_what_goes_wrong_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, plan: str, capsys: pytest.CaptureFixture[str], error: BaseException, said: str
) -> None:
    """A traceback tells a user nothing that they could act on."""
    here(monkeypatch, error)
    assert main(["run", plan]) == 1
    assert capsys.readouterr().err.startswith(said)


def test_results_that_could_not_be_kept_are_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Minutes later, when they are to be written, it would be a traceback and a lost run."""
    recorder = here(monkeypatch, answer=Ending.WHOLE)
    (tmp_path / "file").touch()
    assert main(["run", plan, "--out", str(tmp_path / "file" / "out")]) == 2
    assert recorder.asked == []
    assert "--out: cannot hold results: Not a directory" in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_traceback(tmp_path: Path) -> None:
    """In `stepbench schema | head -1` the schema is longer than the pipe's reader takes."""
    program = [sys.executable, "-c", "import sys; from stepbench.cli import main; sys.exit(main(['schema']))"]
    with (tmp_path / "err").open("w+b") as errors:
        read, write = os.pipe()
        os.close(read)
        code = subprocess.run(program, stdout=write, stderr=errors, check=False, timeout=60).returncode
        os.close(write)
        errors.seek(0)
        assert (code, errors.read()) == (1, b"")


def test_data_goes_out_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich would make a picture of `:key:`, and `--json` promises the very file."""
    stdout = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    data_console().print('{"path": "/tmp/:key:/[red]"}', soft_wrap=True, markup=False, highlight=False)
    assert stdout.getvalue() == '{"path": "/tmp/:key:/[red]"}\n'


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["frob"], ["run", "x", "--stack", "s", "--local"], ["validate"], ["run", "x", "--frob"]]
)
def test_wrong_arguments_are_bad_input(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, usage goes to stderr, and nothing to stdout."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    said = capsys.readouterr()
    assert said.out == ""
    assert "usage: stepbench" in said.err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """Bug reports name it."""
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"stepbench {__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It names the exit codes, too, which scripts depend on."""
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for command in ("run", "validate", "plans", "stores", "report", "schema", "up", "down"):
        assert f"\n    {command} " in text
    assert "Exit codes: 0 ok; 1 " in text
    assert "3 a run missed a" in text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("plan.json", "one: 1 trial, 200 events in 10 s of load; estimate $", id="200 events at 20/s"),
        pytest.param("quick-sql", "quick-sql: 4 trials, up to ", id="a closed loop's number is for the store to say"),
    ],
)
def test_validate_says_what_the_plan_would_do(capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    """A user sees what it would cost, in time and money, before it is run."""
    written()
    assert main(["validate", name]) == 0
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize(
    ("target", "options", "code"),
    [
        ({"store": "cassandra"}, [], 2),
        ({"store": "cassandra"}, ["--stack"], 0),
        ({"store": "cassandra", "endpoint": "127.0.0.1:9042"}, [], 0),
        ({"store": "redis"}, [], 0),
        ({"store": "dynamodb"}, [], 0),
    ],
)
def test_validate_refuses_a_store_that_this_machine_does_not_start(
    capsys: pytest.CaptureFixture[str], target: dict[str, str], options: list[str], code: int
) -> None:
    """A run would find out when everything else is up; a deployed stack may have one."""
    trial = {"experiment": "operations", "workload": {"mix": {"read": 1}}, "phases": PHASES, "target": target}
    assert main(["validate", written(trial), *options]) == code
    missing = "trials[0].target.endpoint: is missing, and this machine has no server of cassandra (got nothing)"
    error = capsys.readouterr().err
    assert (missing in error) == (code == 2)
    assert ("Give the endpoint of a server of your own" in error) == (code == 2)


def from_stdin(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipe text into the command."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_plan_comes_from_stdin_under_the_name_of_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user may say `jq '.trials[0].repeats = 5' plan.json | stepbench validate -`."""
    from_stdin(json.dumps(PLAN), monkeypatch)
    assert main(["validate", "-"]) == 0
    assert capsys.readouterr().out.startswith("one: 1 trial, 200 events in 10 s of load")
    from_stdin(json.dumps(PLAN), monkeypatch)
    monkeypatch.setattr(commands, "run_here", recorder := Recorder(answer=Ending.WHOLE))
    assert main(["run", "-"]) == 0
    assert [plan.name for plan in recorder.asked[0][1]] == ["one"]


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        pytest.param("", ["validate", "-"], "stepbench: plan: is empty", id="a pipe whose other end failed"),
        pytest.param(
            "x" * 1_000_000,
            ["validate", "-"],
            "stepbench: plan: is larger than 262,144 bytes (got 262,145 bytes)",
            id="too long: no more is read than shows that",
        ),
        pytest.param(json.dumps(PLAN), ["run", "-", "-"], "stepbench: PLAN: stdin can be read once only", id="twice"),
    ],
)
def test_what_is_wrong_on_stdin_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, arguments: list[str], said: str
) -> None:
    """It is told as of a file; a second reading would find nothing, and say that the plan is empty."""
    from_stdin(text, monkeypatch)
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(said)


def test_of_several_plans_the_bad_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """`trials[0]` is in each of them."""
    assert main(["run", "quick-unloaded", bad := written({**TRIAL, "writers": 0})]) == 2
    assert capsys.readouterr().err.startswith(f"stepbench: {bad}: trials[0].writers: ")


def test_a_folder_without_a_name_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """A script whose variable is empty would fill the folder that it happens to be in."""
    with pytest.raises(SystemExit, match="2"):
        main(["run", "quick-unloaded", "--out", ""])
    assert "--out: names no folder" in capsys.readouterr().err


def test_validate_knows_nothing_against_traces_and_asks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """The stack has to find out if X-Ray shows them."""
    application = {"name": "app", "source": "ours", "traces": {"name": "chain"}}
    assert main(["validate", written(applications=[application])]) == 0
    assert capsys.readouterr().err == ""


def test_validate_shows_what_a_plan_expands_into(capsys: pytest.CaptureFixture[str]) -> None:
    """Trials stand in the order in which they would run; events and length are those of all of them."""
    trial, other = {**TRIAL, "matrix": {"writers": [1, 2]}, "repeats": 2}, {**TRIAL, "target": {"store": "etcd"}}
    assert main(["validate", written(trial, other)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("one: 5 trials, 1,000 events in 50 s of load; estimate $")
    assert rest == [
        "   1  s3.writers-1.r1  writers=1",
        "   2  s3.writers-2.r1  writers=2",
        "   3  etcd",
        "   4  s3.writers-1.r2  writers=1",
        "   5  s3.writers-2.r2  writers=2",
    ]


def test_plans_lists_presets_that_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    """A preset that does not parse would end this with 2."""
    assert main(["plans"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "quick-unloaded" in names
    assert names == sorted(names)


def test_stores_says_which_are_emulated(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody may take the emulator's latencies for AWS's."""
    assert main(["stores"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert rows.keys() == target_models().keys()
    assert "emulated" in rows["s3"]
    assert "emulated" in rows["dynamodb"]
    assert "real" in rows["etcd"]
    assert "no store under test" in rows["reference"]


def test_schema_is_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """An editor takes it so."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Stepbench plan"


def test_a_run_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says where it was looked for."""
    assert main(["report", "nope", "--out", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_up_lists_servers_and_what_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The endpoints are what the next command of a user needs."""
    server = Server(name="etcd", version="3.5.1", endpoint="127.0.0.1:1", processes=())
    state = EnvironmentState(servers=(server,), skipped={"postgresql": "no compiler"}, complete=True)
    monkeypatch.setattr(session, "start_environment", lambda _paths, _notify: state)
    assert main(["up"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["etcd", "127.0.0.1:1", "3.5.1"]
    assert lines[1].split(maxsplit=1) == ["postgresql", "skipped: no compiler"]


@pytest.mark.parametrize(
    ("ended", "said"),
    [(["python (pid 3)", "etcd (pid 1)", "python (pid 2)"], "ended etcd, 2 python\n"), ([], "nothing was running\n")],
)
def test_down_says_what_it_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: list[str], said: str
) -> None:
    """It goes to stderr: there is no data in it."""
    monkeypatch.setattr(session, "stop_environment", lambda _find_paths: ended)
    assert main(["down"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == said


def test_words_in_a_log_file_are_not_cut_to_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """CI's logs have no terminal, and the table's columns would be dropped for want of width."""
    monkeypatch.setattr(sys, "stderr", sys.__stdout__)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert message_console().width == 200
