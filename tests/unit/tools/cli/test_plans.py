"""The commands about plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.samples.dags import dataflow_trial
from tests.unit.tools.cli.conftest import PHASES, PLAN, TRIAL, Recorder, from_stdin, written

from stepbench.planning import find_plan, parse_plan, questions
from stepbench.planning.wall_time import LOCAL, run_s
from stepbench_tools.cli import main
from stepbench_tools.cli.yaml_plan import read_yaml
from stepbench_tools.local import commands
from stepbench_tools.local.commands import Ending
from stepbench_tools.local.store_list import skip_reason


def test_presets_are_listed_by_the_question_that_they_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """Of fifty names in a row, a user finds none; a preset that does not parse would end this with 2."""
    assert main(["plans"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "How long after my write does my function run?"
    assert [line.split()[0] for line in rest if line.startswith("  ")] == [
        name for q in questions() for name in q.presets
    ]


@pytest.mark.parametrize("options", [[], ["--yaml"]])
def test_a_preset_that_is_shown_is_a_plan_to_change(capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    """`stepbench plans show quick-sql > mine.json` is how most plans begin."""
    assert main(["plans", "show", "quick-sql", *options]) == 0
    text = capsys.readouterr().out
    shown = read_yaml(text) if options else json.loads(text)
    assert parse_plan(shown) == parse_plan(find_plan("quick-sql"))


def test_an_unknown_preset_is_told_with_the_three_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """The list of all would scroll the message away."""
    assert main(["plans", "show", "quick-unlaoded"]) == 2
    assert 'Did you mean "quick-unloaded", "quick-unloaded-s3", "quick-unloaded-etcd"?' in capsys.readouterr().err


def test_the_template_is_a_plan_with_its_comments(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the first plan that somebody runs."""
    assert main(["init"]) == 0
    assert capsys.readouterr().out == "plan.yaml\n"
    assert Path("plan.yaml").read_text().count("#") > 10
    assert main(["validate", "plan.yaml"]) == 0


def test_the_template_overwrites_nobody_s_plan(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless that is asked for; and JSON has no comments to write."""
    Path("mine.yaml").write_text("mine")
    assert main(["init", "mine.yaml"]) == 2
    assert Path("mine.yaml").read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert main(["init", "mine.yaml", "--force"]) == 0
    assert Path("mine.yaml").read_text() != "mine"
    assert main(["init", plan, "--force"]) == 2


def test_schema_is_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """An editor takes it so."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Stepbench plan"


def test_a_plan_over_its_budget_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate stands beside the budget, and so does the remedy."""
    phases = [{"name": "p", "load": [{"rate_per_s": 1_000, "duration_s": 10_000}]}]
    assert main(["validate", written({**TRIAL, "phases": phases}, budget_usd=0.01)]) == 2
    assert "budget_usd" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("plan.json", "one: 1 trial, 200 events in 10 s of load; takes about ", id="200 events at 20/s"),
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
        ({"store": "dsql"}, [], 2),
        ({"store": "dsql"}, ["--stack"], 0),
        ({"store": "dsql", "endpoint": "127.0.0.1:5432"}, [], 0),
        ({"store": "cassandra"}, [], 0),
        ({"store": "redis"}, [], 0),
        ({"store": "dynamodb"}, [], 0),
        ({"store": "dynamodb", "tls": True}, [], 2),
        ({"store": "dynamodb", "tls": True}, ["--stack"], 0),
        ({"store": "redis", "cluster": True}, [], 2),
        ({"store": "redis", "tls": True}, [], 0),
    ],
)
def test_validate_refuses_what_this_machine_does_not_start(
    capsys: pytest.CaptureFixture[str], target: dict[str, Any], options: list[str], code: int
) -> None:
    """A run would find out when everything else is up; a deployed stack may have one."""
    trial = {"experiment": "operations", "workload": {"mix": {"read": 1}}, "phases": PHASES, "target": target}
    assert main(["validate", written(trial), *options]) == code
    error = capsys.readouterr().err
    assert ("trials[0].target: cannot run here: " in error) == (code == 2)
    assert ("Or run it on a deployed stack (validate --stack)." in error) == (code == 2)
    (planned,) = parse_plan(Path("plan.json").read_bytes()).trials
    assert (str(skip_reason(planned, {})) in error) == (code == 2)


def test_validate_says_that_a_copy_does_what_the_function_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whoever measures a function that mails has mailed: each is named once, however often it is run."""
    phases = [{"name": "only", "load": [{"rate_per_s": 1, "count": 10}]}]
    trial = {"target": {"store": "s3", "function": {"name": "orders"}}, "phases": phases, "repeats": 2}
    (plan := tmp_path / "plan.json").write_text(json.dumps({"name": "mine", "trials": [trial]}))
    assert main(["validate", str(plan)]) == 0
    assert capsys.readouterr().out.count("a copy of orders is invoked, which does what that does") == 1
    assert main(["validate", "--json", str(plan)]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith("a copy of orders is invoked, which does what that does")


def test_a_preset_for_a_function_of_ones_own_wants_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be looked for on the stack under the name of the example."""
    assert main(["validate", "your-function", "--stack"]) == 2
    error = capsys.readouterr().err
    assert 'trials[0].target.function.name: is to be replaced by the name of your own function (got "YOUR-F' in error
    for store in ("dynamodb", "s3", "postgresql"):
        given = ("--set", "trials[0].target.function.name=orders", "--set", f"trials[0].target.store={store}")
        assert main(["validate", "your-function", "--stack", *given]) == 0


def test_validate_names_what_is_skipped_where_the_rest_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    """As `run` would; a plan that cannot run here at all is refused."""
    both = [{"store": "dsql"}, {"store": "redis"}]
    common = {"experiment": "operations", "workload": {"mix": {"read": 1}}, "phases": PHASES}
    assert main(["validate", written(*({**common, "target": target} for target in both))]) == 0
    assert "\n  dsql is skipped here: no dsql is started here: " in capsys.readouterr().out


def test_clusters_are_created_on_aws_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """An endpoint, which other trials of Aurora DSQL want, would be refused here."""
    assert main(["validate", "paper-dsql-creation"]) == 2
    error = capsys.readouterr().err
    assert "trials[0].target: cannot run here: only AWS creates clusters of Aurora DSQL" in error
    assert "endpoint" not in error


def test_validate_refuses_a_table_that_no_emulator_scales(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is for a deployed stack, and its remedy makes it one for here."""
    assert main(["validate", "paper-unloaded-dynamodb"]) == 2
    error = capsys.readouterr().err
    path = "trials[0].target.capacity"
    assert f"{path}.mode: needs Application Auto Scaling, which the local emulator does not have" in error
    assert f'--set \'{path}={{"mode": "on_demand"}}\'' in error
    assert main(["validate", "paper-unloaded-dynamodb", "--set", f'{path}={{"mode": "on_demand"}}']) == 0
    assert main(["validate", "paper-unloaded-dynamodb", "--stack"]) == 0


def test_hosts_side_by_side_are_refused_for_one_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """A deployed stack has them; the remedy is one that the same command takes."""
    assert main(["validate", "paper-placement"]) == 2
    assert (
        "trials[0].target.host: is one of several hosts of a stack, and the local emulator" in capsys.readouterr().err
    )
    assert main(["validate", "paper-placement", "--stack"]) == 0
    assert main(["validate", "paper-placement", "--set", "trials[*].target.host=null"]) == 0


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
            "stepbench: plan: is larger than 258,048 bytes (got 258,049 bytes)",
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


def test_validate_knows_nothing_against_traces_and_asks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """The stack has to find out if X-Ray shows them."""
    application = {"name": "app", "source": "ours", "traces": {"name": "chain"}}
    assert main(["validate", written(applications=[application]), "--stack"]) == 0
    assert capsys.readouterr().err == ""


def test_validate_shows_what_a_plan_expands_into(capsys: pytest.CaptureFixture[str]) -> None:
    """Trials stand in the order in which they would run; events and length are those of all of them."""
    trial, other = {**TRIAL, "matrix": {"writers": [1, 2]}, "repeats": 2}, {**TRIAL, "target": {"store": "etcd"}}
    assert main(["validate", written(trial, other)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("one: 5 trials, 1,000 events in 50 s of load; takes about ")
    assert rest == [
        "   1  s3.writers-1.r1  writers=1",
        "   2  s3.writers-2.r1  writers=2",
        "   3  etcd",
        "   4  s3.writers-1.r2  writers=1",
        "   5  s3.writers-2.r2  writers=2",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "trials[0].phases[0].load[0].count=600"], "one: 1 trial, 600 events in 30 s of load; takes about "),
        (["--duration", "5", "--repeats", "3"], "one: 3 trials, 300 events in 15 s of load; takes about "),
    ],
)
def test_validate_tells_of_the_plan_with_its_changes(
    plan: str, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    """It is the plan that `run` with the same options would run, and what was changed is told beside it."""
    assert main(["validate", plan, *options]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(said)
    assert captured.err.startswith("changed: ")


def test_what_a_change_breaks_is_told_as_of_any_plan(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Path, value and remedy are those of the field."""
    assert main(["validate", plan, "--set", "trials[*].writers=0"]) == 2
    assert "stepbench: trials[0].writers: has to be greater than or equal to 1 (got 0)" in capsys.readouterr().err


def test_every_mistake_of_every_plan_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Each by its plan's name; the good plan between them is described all the same."""
    bad = written({**TRIAL, "writers": 0, "seed": "x"})
    assert main(["validate", bad, "quick-unloaded-etcd", "quick-unloadde"]) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("quick-unloaded-etcd: 1 trial")
    assert [line.split(": ")[1:3] for line in captured.err.splitlines()] == [
        [bad, "trials[0].writers"],
        [bad, "trials[0].seed"],
        ["quick-unloadde", "PLAN"],
    ]


def test_validate_prints_an_object_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline asks how long and how dear before it starts anything; problems are fields, not sentences."""
    assert main(["validate", written(), "nowhere.json", "--json"]) == 2
    captured = capsys.readouterr()
    good, bad = map(json.loads, captured.out.splitlines())
    assert captured.err == ""
    assert 0 < good.pop("here_usd") < good.pop("estimate_usd") < good.pop("at_most_usd")
    assert good == {
        "name": "one", "ok": True, "problems": [], "trials": 1, "events": 200, "load_s": 10.0,
        "wall_s": round(run_s([parse_plan(Path("plan.json").read_bytes()).trials[0]], LOCAL)), "budget_usd": 5.0,
    }  # fmt: skip
    assert (bad["name"], bad["ok"], bad["problems"][0]["path"]) == ("nowhere.json", False, "PLAN")
    assert bad["problems"][0].keys() == {"path", "value", "message", "remedy"}


def test_validate_says_what_a_store_has_to_expect(capsys: pytest.CaptureFixture[str]) -> None:
    """It is known from the DAG alone, so it is said before the run, once for all stores that are compared."""
    trial = {**dataflow_trial(), "matrix": {"target.store": ["s3", "redis"]}}
    assert main(["validate", written(trial), "--stack"]) == 0
    assert capsys.readouterr().out.count("diamond: 8 tasks on 3 levels, up to 6 at once; 11 objects written") == 1
    assert main(["validate", written(trial), "--stack", "--json"]) == 0
    assert [mix["mix"] for mix in json.loads(capsys.readouterr().out)["expected"]] == ["balanced"]


def test_a_plan_over_its_budget_still_tells_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """They say by how much."""
    assert main(["validate", written(budget_usd=0), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["trials"], told["problems"][0]["path"]) == (False, 1, "budget_usd")
    assert told["estimate_usd"] > told["budget_usd"]


@pytest.mark.parametrize(
    ("name", "asked"),
    [("plan.yaml", "plan.yaml"), ("plan", "plan"), ("plan.yml", "-")],
    ids=["by name", "by text", "stdin"],
)
def test_a_plan_may_be_yaml(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, asked: str
) -> None:
    """It is told by its file's name or, without one, by its text."""
    phases = "[{name: p, load: [{rate_per_s: 20, count: 200}]}]"
    text = f"# mine\nname: one\ntrials:\n- target: {{store: s3}}\n  phases: {phases}\n"
    Path(name).write_text(text)
    from_stdin(text, monkeypatch)
    assert main(["validate", asked]) == 0
    assert capsys.readouterr().out.startswith("one: 1 trial, 200 events in 10 s of load")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: a\nname: b", "stepbench: line 2, column 1: is given twice"),
        ("- 1", "stepbench: plan: is not an object (got a list)"),
        ("name: on\ntrials: [{target: {store: s3}, phases: [{name: p, measured: no, load: [{rate_per_s: 1}]}]}]",
         'phases[0].measured: has to be a valid boolean (got "no"). Give true or false.'),
    ],
)  # fmt: skip
def test_what_is_wrong_in_yaml_is_bad_input(capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    """Its place or its path is told, as in JSON."""
    Path("bad.yaml").write_text(text)
    assert main(["validate", "bad.yaml"]) == 2
    assert said in capsys.readouterr().err
