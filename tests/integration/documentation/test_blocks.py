"""Every block of README, CONTRIBUTING and docs is tried, by its kind; what is left out is named, with the reason."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML
from tests.integration.documentation import aws_commands
from tests.integration.documentation.blocks import KINDS, NO_COMMANDS, OTHER_KINDS, ROOT, Block, blocks, of_kind
from tests.integration.documentation.shell import PROGRAMS_OF_THE_CLONE, RECORDED, Call, record, scripts
from tests.layout.test_published import takes
from tests.samples.templates import load_template
from tests.samples.tuning import model

from stepbench.contracts.function import MeasuredFunction
from stepbench.contracts.plan import TrialPlan
from stepbench.drivers.dsql.access import SETUP
from stepbench.errors import PlanError
from stepbench.planning import find_plan, parse_plan
from stepbench.planning.changes import Changes
from stepbench.planning.requests import parse_request, requested_plan
from stepbench.stages import turns
from stepbench_tools.cli.inputs import read_plan
from stepbench_tools.cli.parser import build_parser
from stepbench_tools.documents.openapi import openapi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PARAMETERS = load_template("template.yaml")["Parameters"]
WITH_PLANS = {"run", "validate", "tune"}
SAM_PARSER = """
import importlib, json, sys
import click
def parsed(command, *words):
    try:
        found = importlib.import_module(f"samcli.commands.{command}.command").cli.make_context(command, list(words))
    except click.ClickException as error:
        return {"refused": error.format_message()}
    return {"others": found.args, "parameters": found.params.get("parameter_overrides") or {}}
print(json.dumps([parsed(*words) for words in json.load(sys.stdin)]))
"""
CURL_OPTIONS = {"--silent", "--show-error", "--compressed"}
CURL_OPTIONS_WITH_A_VALUE = {"--upload-file", "--aws-sigv4", "--user", "--header", "--data", "--output", "-X"}
TRIAL = {"target": {"store": "s3"}, "phases": [{"name": "steady", "load": [{"rate_per_s": 1, "count": 5}]}]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that commands read: plans of the reader's own, and a tuned model."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("plan.json", "nightly.json", "plan.yaml"):
        (folder / name).write_bytes(find_plan("quick-unloaded-s3"))
    (folder / "tuned.json").write_text(model().model_dump_json())
    (folder / "out").mkdir()
    return folder


@pytest.fixture(scope="module")
def calls(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """Return what the commands of all pages call, each page in an empty folder but for those files."""
    found = []
    for page, parts in scripts():
        place = tmp_path_factory.mktemp("page")
        shutil.copytree(folder, place, dirs_exist_ok=True)
        try:
            found += record(place, page, parts)
        except AssertionError as error:
            error.add_note(f"in {page}, {[name for name, _ in parts]}")
            raise
    return found


def calls_of(calls: list[Call], program: str) -> list[Call]:
    """Return the calls of one program; that there are some shows that the recorders record."""
    found = [each for each in calls if each.program.rpartition("/")[2] == program]
    assert found, program
    return found


def test_each_block_has_a_kind_and_no_exception_is_stale() -> None:
    """What is left out has to be a block that there is, with its reason."""
    assert [each.name for each in blocks() if each.kind not in KINDS] == []
    texts = [each.text.replace(" ", "") for each in blocks()]
    begins = [each.replace(" ", "") for each in (*NO_COMMANDS, *OTHER_KINDS)]
    assert [start for start in begins if not any(text.startswith(start) for text in texts)] == []
    assert len(of_kind("sh")) > 40


def test_every_program_of_a_block_is_known(calls: list[Call]) -> None:
    """Bash has parsed and run all of them; what each was given is judged below, by its own parser."""
    assert {each.program for each in calls} <= {*RECORDED, *PROGRAMS_OF_THE_CLONE}
    called = {each.block for each in calls}
    silent = [each for each in of_kind("sh") if each.name not in called]
    assert [each.name for each in silent if not re.fullmatch(r"((export )?\w+=.*\n)+", each.text)] == []


def test_stepbench_takes_its_commands(calls: list[Call], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own parser; plans are read, changed as asked and held against their budgets, as `validate` does."""
    monkeypatch.chdir(folder)
    for call in calls_of(calls, "stepbench"):
        options = _parsed(call)
        if call.words[0] in WITH_PLANS:
            names = options.plans if isinstance(getattr(options, "plans", None), list) else [options.plan]
            for name in names:
                read_plan(name, Changes(None, None, tuple(getattr(options, "set", ()))))


def _parsed(call: Call) -> Any:  # noqa: ANN401 -- argparse's
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            return build_parser().parse_args(call.words)
    except SystemExit:
        pytest.fail(f"{call}: {messages.getvalue()}")


def test_make_has_the_targets_and_variables(calls: list[Call]) -> None:
    """`make -n` prints what it would do, and fails for a target that there is not."""
    makefile = (ROOT / "Makefile").read_text()
    for call in calls_of(calls, "make"):
        answer = subprocess.run(
            ["make", "-n", *call.words],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert answer.returncode == 0, (call, answer.stderr)
        for variable in (word.split("=")[0] for word in call.words if "=" in word):
            assert re.search(rf"\$\({variable}\b|^{variable} \?=", makefile, re.MULTILINE), (call, variable)


def test_variables_before_a_command_are_ones_that_somebody_reads() -> None:
    """A misspelt one would be ignored."""
    named = {
        name
        for block in of_kind("sh")
        for line in re.findall(r"^((?:[A-Z_]+=\S+ )+)(?=stepbench|make|\.venv)", block.text, re.MULTILINE)
        for name in re.findall(r"([A-Z_]+)=", line)
    }
    folders = ("layers/core/src", "tools/src")
    sources = [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert {"STEPBENCH_EMULATOR", "AWS_ENDPOINT_URL"} <= named
    assert [name for name in named if not any(f'"{name}"' in text for text in sources)] == []


def test_sam_takes_its_commands_and_the_template_their_parameters(calls: list[Call]) -> None:
    """By SAM CLI's own parser, of the version that `make setup` installs, where the clone's samconfig.toml is."""
    found = calls_of(calls, "sam")
    answer = subprocess.run(
        [ROOT / ".stepbench/venvs/sam/bin/python", "-c", SAM_PARSER],
        input=json.dumps([each.words for each in found]),
        cwd=ROOT,
        env={"PATH": os.defpath, "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1", "HOME": os.devnull},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    for call, parsed in zip(found, json.loads(answer.stdout), strict=True):
        assert (parsed.get("refused"), parsed.get("others")) == (None, []), call
        refused = [pair for pair in parsed["parameters"].items() if pair[0] not in PARAMETERS or not takes(*pair)]
        assert refused == [], call


def test_aws_takes_its_commands(calls: list[Call], folder: Path) -> None:
    """By botocore's descriptions of the services, which AWS's command line is made of."""
    for call in calls_of(calls, "aws"):
        assert aws_commands.problems(call.words, folder) == "", call
        outputs = re.findall(r"OutputKey=='(\w+)'", " ".join(call.words))
        assert set(outputs) <= load_template("template.yaml")["Outputs"].keys(), call


def test_what_aws_is_to_start_is_a_request(calls: list[Call], folder: Path) -> None:
    """A line break inside of JSON's text is a field that there is not, or no JSON, once the schedule starts a run."""
    started = 0
    for call in calls_of(calls, "aws"):
        given = dict(pairwise(call.words))
        if "create-schedule" in call.words:
            text = json.loads(json.loads(given["--target"])["Input"])["Input"]
        elif "start-execution" in call.words:
            text = given["--input"]
        else:
            continue
        file = text.removeprefix("file://")
        is_request(json.loads(text if file == text else (folder / file).read_text()))
        started += 1
    assert started == 3


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("stepfunctions start-executoin --state-machine-arn m", "has no start-executoin"),
        ("stepfunctions start-execution --state-machine m", "unknown: ['state-machine']"),
        ("stepfunctions start-execution --name n", "Missing required parameter"),
        ("sqs receive-message --queue-url q --max-number-of-messages 10 11", "invalid literal"),
        (
            "scheduler create-schedule --name w --schedule-expression rate --flexible-time-window Mod=OFF --target {}",
            "Mod",
        ),
        ("s3 cp s3://a", "from where?"),
        ("s3api list-object-versions --bucket b --query [length(", "expression"),
    ],
)
def test_a_call_that_aws_would_refuse_is_found(words: str, found: str, tmp_path: Path) -> None:
    """Or the test above could not fail."""
    try:
        said = aws_commands.problems(words.split(), tmp_path)
    except ValueError as error:
        said = str(error)
    assert found in said


def test_curl_takes_its_commands(calls: list[Call]) -> None:
    """Of its many options, those that are known here; the requests themselves go to the deployed API, end to end."""
    for call in calls_of(calls, "curl"):
        words = iter(call.words)
        addresses = []
        for word in words:
            if word in CURL_OPTIONS_WITH_A_VALUE:
                next(words)
            elif word not in CURL_OPTIONS:
                addresses.append(word)
        assert [address for address in addresses if not re.match(r"(https?|arn):", address)] == [], call
        assert len(addresses) == 1, call


def test_programs_of_python_are_there_and_have_their_options(calls: list[Call]) -> None:
    """`python -m MODULE`: each says by `--help` what it takes."""
    for call in calls_of(calls, "python"):
        flag, module, *words = (word.strip("[]") for word in call.words)
        if flag == "-c":
            ast.parse(module)
            continue
        assert (flag, importlib.util.find_spec(module) is not None) == ("-m", True), call
        asked = {word for word in words if word.startswith("--")} - {"--help"}
        if asked:
            assert asked <= set(re.findall(r"--[a-z][a-z-]*", _help(module))), call


@cache
def _help(module: str) -> str:
    command = [sys.executable, "-m", module, "--help"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120).stdout


def test_the_other_programs_are_given_what_there_is(calls: list[Call]) -> None:
    """A module for Go, the package with extras that it has, the clone's own script; the rest is other people's."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for call in calls_of(calls, "pip"):
        (wanted,) = re.findall(r"^\.\[(.+)\]$", call.words[1])
        assert (call.words[0], set(wanted.split(",")) <= extras.keys()) == ("install", True)
    for call in calls_of(calls, "go"):
        assert re.fullmatch(r"install [\w./-]+@[\w.]+", " ".join(call.words)), call
    assert {call.words for call in calls_of(calls, "git")} == {("pull",)}
    assert [os.access(ROOT / call.program, os.X_OK) for call in calls_of(calls, "run")] == [True]


@pytest.mark.parametrize("block", of_kind("yaml"), ids=lambda block: block.name)
def test_yaml_is_a_pipeline_a_plan_or_a_part_of_a_trial(block: Block) -> None:
    """What its commands are given is judged above, with all others."""
    document = YAML(typ="safe").load(block.text)
    if "trials" in document:
        is_plan(document)
    elif "function" in document:
        MeasuredFunction.model_validate(document["function"])
    else:
        of_trial = document.keys() <= TrialPlan.model_fields.keys()
        assert "jobs" in document or {"phases", "reports"} <= document.keys() or of_trial


def is_plan(found: dict[str, Any]) -> None:
    """Parse a plan, a trial, a phase, the DAG of a trial, or the applications of a plan."""
    if "trials" in found:
        document = found
    elif "stages" in found:
        trial = json.loads(find_plan("quick-dataflow"))["trials"][0]
        phase = {"name": "steady", "dag": found["name"], "closed": {"clients": 1, "duration_s": 60, "operations": 6}}
        document = {"trials": [{**trial, "dags": [found], "phases": [phase], "drain_limit_s": 600}]}
    elif "applications" in found:
        document = {"trials": [TRIAL], **found}
    else:
        trial = found if "target" in found else {**TRIAL, "phases": [found]}
        document = {"trials": [trial]}
    parse_plan(json.dumps({"name": "documented", "budget_usd": 10_000, **document}))


def is_request(found: dict[str, Any]) -> None:
    """Parse a request for a run, with its changes."""
    requested_plan(parse_request(found))


def is_policy(found: dict[str, Any]) -> None:
    """Look up the routes that a policy permits."""
    routes = {(method.upper(), path) for path, found in openapi()["paths"].items() for method in found}
    for arn in found["Resource"]:
        method, _, path = arn.partition("/*/")[2].partition("/")
        assert any(method == known and (path in {"*", at.removeprefix("/")}) for known, at in routes), arn


def is_event_pattern(found: dict[str, Any]) -> None:
    """Look up the source and the kinds of events, and the fields that they are chosen by."""
    assert found["source"] == [turns.SOURCE]
    assert set(found["detail-type"]) <= {turns.REGRESSION_DETECTED, turns.RUN_FAILED}
    assert found["detail"].keys() <= {"stack", *turns._FIELDS}


def is_problem(found: dict[str, Any]) -> None:
    """Refuse what the problem is about, and compare the words."""
    assert found.keys() == openapi()["components"]["schemas"]["ProblemDetails"]["properties"].keys()
    (documented,) = found["problems"]
    assert documented in [problem._asdict() for problem in refused({"rate_per_s": json.loads(documented["value"])})]


JSON: tuple[tuple[str, Callable[[dict[str, Any]], None]], ...] = (
    ("plan", is_request),
    ("detail-type", is_event_pattern),
    ("Effect", is_policy),
    ("problems", is_problem),
    ("", is_plan),
)
"""What a JSON block is, by a key that it alone has; any other is a plan or a part of one."""


@pytest.mark.parametrize("block", of_kind("json"), ids=lambda block: block.name)
def test_json_is_what_it_stands_for(block: Block) -> None:
    """It is copied."""
    found = json.loads(block.text)
    check = next(check for key, check in JSON if not key or key in found)
    check(found)


def refused(load: dict[str, Any], **target: Any) -> tuple[Any, ...]:  # noqa: ANN401 -- any field
    """Return the problems of a plan for DynamoDB with this load."""
    phase = {"name": "steady", "load": [{"count": 10, **load}]}
    trial = {"target": {"store": "dynamodb", **target}, "phases": [phase]}
    with pytest.raises(PlanError) as raised:
        parse_plan(json.dumps({"name": "refused", "trials": [trial]}))
    return tuple(raised.value.problems)


@pytest.mark.parametrize("block", of_kind("refusals"), ids=lambda block: block.name)
def test_refusals_have_the_product_s_words(block: Block) -> None:
    """A line that ends in … is the beginning of one."""
    said = [str(problem) for problem in refused({"rate_per_s": 0}, batchsize=3)]
    for line in block.text.strip().splitlines():
        whole, _, cut = line.partition("…")
        assert any(each == whole or (not cut and "…" in line and each.startswith(whole)) for each in said), (line, said)


@pytest.mark.parametrize("block", of_kind("python"), ids=lambda block: block.name)
def test_python_compiles_and_its_imports_are_there(block: Block) -> None:
    """What a block shows of the example store is compared with it by tests/layout/test_stores.py."""
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(importlib.import_module(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def test_the_task_of_one_s_own_counts_words() -> None:
    """The one block of Python that can be run by itself."""
    (block,) = (each for each in of_kind("python") if "count_words" in each.text)
    namespace: dict[str, Any] = {}
    exec(compile(block.text, block.name, "exec"), namespace)  # noqa: S102 -- our own documentation
    assert namespace["TASKS"].keys() == namespace["PARAMETERS"].keys()


@pytest.mark.parametrize("block", of_kind("js"), ids=lambda block: block.name)
def test_javascript_is_parsed(block: Block, tmp_path: Path) -> None:
    """By Node.js, which the suite needs anyhow."""
    path = tmp_path / "block.js"
    path.write_text(block.text)
    subprocess.run(["node", "--check", path], check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("block", of_kind("sql"), ids=lambda block: block.name)
def test_statements_are_those_of_the_product(block: Block) -> None:
    """`BootstrapDsql` executes them in the stack's own clusters; the last two bind roles, which here are anybody's."""
    executed = [each.as_string(None).replace('"', "").replace("IF NOT EXISTS ", "") for each in SETUP]
    assert [line.rstrip(";") for line in block.text.splitlines()[:-2]] == executed
