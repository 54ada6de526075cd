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

from stepbench import __version__, cli
from stepbench.cli import main
from stepbench.contracts.plan import Plan
from stepbench.errors import LocalEnvironmentError
from stepbench.local import commands, session
from stepbench.local.places import Places
from stepbench.local.state import EnvironmentState, Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.local.commands import Options

PLAN = {
    "name": "one",
    "trials": [{"target": {"store": "s3"}, "phases": [{"name": "p", "load": [{"rate_per_s": 20, "count": 200}]}]}],
}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test leaves a folder for results where it is run from."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def plan(tmp_path: Path) -> str:
    """A valid plan's file."""
    path = tmp_path / "one.json"
    path.write_text(json.dumps(PLAN))
    return str(path)


class Recorder:
    """Stands in for a run: remembers what it was asked, and answers as told."""

    def __init__(self, answer: bool | BaseException) -> None:  # noqa: FBT001 -- the answer itself
        self.answer = answer
        self.asked: list[tuple[Any, Sequence[Plan], Options]] = []

    def __call__(self, where: Any, plans: Sequence[Plan], options: Options, *_consoles: object) -> bool:  # noqa: ANN401 -- places, or a name
        """Ask it."""
        self.asked.append((where, plans, options))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def here(monkeypatch: pytest.MonkeyPatch, answer: bool | BaseException) -> Recorder:  # noqa: FBT001 -- as above
    """What a local run is replaced by."""
    recorder = Recorder(answer)
    monkeypatch.setattr(commands, "run_here", recorder)
    return recorder


@pytest.mark.parametrize(("whole", "code"), [(True, 0), (False, 1)])
def test_a_run_ends_with_0_only_if_all_of_it_went_through(
    monkeypatch: pytest.MonkeyPatch,
    plan: str,
    whole: bool,  # noqa: FBT001 -- a case
    code: int,
) -> None:
    """A script has to learn of a failed, stopped or skipped trial."""
    recorder = here(monkeypatch, whole)
    assert main(["run", plan]) == code
    [(where, plans, options)] = recorder.asked
    assert isinstance(where, Places)
    assert [each.name for each in plans] == ["one"]
    assert (options.out, options.json, options.floors) == (Path("out"), False, True)


def test_a_stacks_name_leads_to_the_stack(monkeypatch: pytest.MonkeyPatch, plan: str) -> None:
    """The same words against AWS; nothing is started here."""
    recorder = Recorder(answer=True)
    monkeypatch.setattr(commands, "run_there", recorder)
    assert main(["run", plan, "--stack", "bench", "--json", "--out", "results", "--no-floors"]) == 0
    [(where, _, options)] = recorder.asked
    assert where == "bench"
    assert (options.out, options.json, options.floors) == (Path("results"), True, False)


def test_one_bad_plan_among_good_ones_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused before anything is created, with path, value and remedy on stderr and nothing on stdout."""
    recorder = here(monkeypatch, answer=True)
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({**PLAN, "trials": [{**PLAN["trials"][0], "writers": 0}]}))  # type: ignore[dict-item]
    assert main(["run", plan, str(bad)]) == 2
    assert recorder.asked == []
    said = capsys.readouterr()
    assert said.out == ""
    assert "trials[0].writers" in said.err
    assert "(got 0)" in said.err


def test_a_plan_over_its_budget_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate stands beside the budget, and so does the remedy."""
    path = tmp_path / "dear.json"
    load = [{"rate_per_s": 1_000, "duration_s": 10_000}]
    trial = {"target": {"store": "s3"}, "phases": [{"name": "p", "load": load}]}
    path.write_text(json.dumps({"name": "dear", "trials": [trial], "budget_usd": 0.01}))
    assert main(["validate", str(path)]) == 2
    assert "budget_usd" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LocalEnvironmentError("etcd does not start"), "stepbench: etcd does not start\n"),
        (KeyboardInterrupt(), "stepbench: interrupted\n"),
        (NoCredentialsError(), "stepbench: AWS: Unable to locate credentials\n"),
        (NoRegionError(), "stepbench: AWS: no region is set; set AWS_DEFAULT_REGION"),
        (ModuleNotFoundError("No module named 'rich'"), "stepbench: No module named 'rich'; install stepbench[local"),
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
    recorder = here(monkeypatch, answer=True)
    (tmp_path / "file").touch()
    assert main(["run", plan, "--out", str(tmp_path / "file" / "out")]) == 2
    assert recorder.asked == []
    assert "--out: cannot hold results: Not a directory" in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_traceback(tmp_path: Path) -> None:
    """`stepbench schema | head -1`; the schema is longer than a pipe's reader takes."""
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
    cli._data().print('{"path": "/tmp/:key:/[red]"}', soft_wrap=True, markup=False, highlight=False)
    assert stdout.getvalue() == '{"path": "/tmp/:key:/[red]"}\n'


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["frob"], ["run", "x", "--stack", "s", "--local"], ["validate"], ["run", "x", "--frob"]]
)
def test_wrong_arguments_are_bad_input(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, usage on stderr, nothing on stdout."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "usage: stepbench" in said.err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    """For bug reports."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"stepbench {__version__}\n"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit codes, which scripts depend on."""
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for command in ("run", "validate", "plans", "stores", "report", "schema", "up", "down"):
        assert f"\n    {command} " in text
    assert "Exit codes" in text


def test_validate_says_what_the_plan_would_do(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    """200 events at 20/s are 10 s of load."""
    assert main(["validate", plan]) == 0
    assert capsys.readouterr().out.startswith("one: 1 trial, 200 events in 10 s of load; estimate $")


def test_validate_says_that_a_closed_loop_s_number_is_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """How many it will be is for the store to say."""
    assert main(["validate", "quick-sql"]) == 0
    assert capsys.readouterr().out.startswith("quick-sql: 4 trials, up to ")


def from_stdin(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is piped into the command."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_plan_comes_from_stdin_under_the_name_of_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`jq '.trials[0].repeats = 5' plan.json | stepbench validate -`."""
    from_stdin(json.dumps(PLAN), monkeypatch)
    assert main(["validate", "-"]) == 0
    assert capsys.readouterr().out.startswith("one: 1 trial, 200 events in 10 s of load")
    from_stdin(json.dumps(PLAN), monkeypatch)
    monkeypatch.setattr(commands, "run_here", recorder := Recorder(answer=True))
    assert main(["run", "-"]) == 0
    assert [plan.name for plan in recorder.asked[0][1]] == ["one"]


def test_what_is_wrong_on_stdin_is_told_as_of_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe whose other end failed is empty."""
    from_stdin("", monkeypatch)
    assert main(["validate", "-"]) == 2
    assert capsys.readouterr().err.startswith("stepbench: plan: is empty")


def test_stdin_is_one_plan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The second reading would find nothing, and say that the plan is empty."""
    from_stdin(json.dumps(PLAN), monkeypatch)
    assert main(["run", "-", "-"]) == 2
    assert "stdin can be read once only" in capsys.readouterr().err


def test_validate_knows_nothing_against_traces_and_asks_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether X-Ray shows them is for the stack to find out."""
    path = tmp_path / "traced.json"
    application = {"name": "app", "source": "ours", "traces": {"name": "chain"}}
    path.write_text(json.dumps({**PLAN, "applications": [application]}))
    assert main(["validate", str(path)]) == 0
    assert capsys.readouterr().err == ""


def test_validate_shows_what_a_plan_expands_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the order in which it would run; events and length are those of all of it."""
    phases = [{"name": "p", "load": [{"rate_per_s": 20, "count": 200}]}]
    trial = {"target": {"store": "s3"}, "phases": phases, "matrix": {"writers": [1, 2]}, "repeats": 2}
    other = {"target": {"store": "etcd"}, "phases": phases}
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"name": "many", "trials": [trial, other]}))
    assert main(["validate", str(path)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("many: 5 trials, 1,000 events in 50 s of load; estimate $")
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
    assert rows.keys() == {"s3", "dynamodb", "postgresql", "dsql", "etcd", "redis", "cassandra", "reference"}
    assert "emulated" in rows["s3"]
    assert "emulated" in rows["dynamodb"]
    assert "real" in rows["etcd"]
    assert "no store under test" in rows["reference"]


def test_schema_is_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """For an editor."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Stepbench plan"


def test_a_run_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With where it was looked for."""
    assert main(["report", "nope", "--out", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_up_lists_servers_and_what_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The endpoints are what the next command of a user needs."""
    server = Server(name="etcd", version="3.5.1", endpoint="127.0.0.1:1", processes=())
    state = EnvironmentState(servers=(server,), skipped={"postgresql": "no compiler"}, complete=True)
    monkeypatch.setattr(session, "keep_up", lambda _places, _say: state)
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
    """On stderr: there is no data in it."""
    monkeypatch.setattr(session, "bring_down", lambda _places: ended)
    assert main(["down"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == said


def test_words_in_a_log_file_are_not_cut_to_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """CI's logs have no terminal, and the table's columns would be dropped for want of width."""
    monkeypatch.setattr(sys, "stderr", sys.__stdout__)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert cli._people().width == 200
