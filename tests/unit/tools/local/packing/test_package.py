"""From plans that name folders to plans that name packages."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.tools.cli.conftest import PHASES

from stepbench.errors import LocalEnvironmentError, PlanError
from stepbench.planning import expanded, parse_plan
from stepbench_tools.cli import main
from stepbench_tools.cli.inputs import read_plans
from stepbench_tools.local.packing import dependencies
from stepbench_tools.local.packing.dependencies import Workshop
from stepbench_tools.local.packing.handlers import Handler
from stepbench_tools.local.packing.package import Packed, check_codes, distinct_labels, pack_plans, uploaded
from stepbench_tools.local.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.plan import Plan


HANDLER = "def handler(event, context): ...\n"


@pytest.fixture(autouse=True)
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in another folder than the plan, whose two versions of a function differ."""
    for name in ("before", "after"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        (tmp_path / "mine" / name / "app.py").write_text(f"{HANDLER}# {name}\n")
    monkeypatch.chdir(tmp_path)


def plan_file(matrix: Mapping[str, Sequence[Any]] | None = None, **function: object) -> str:
    """Write a plan beside its code, and return its path."""
    target = {"store": "dynamodb", "function": {"code": "before", "handler": "app.handler", **function}}
    trial = {"target": target, "phases": PHASES, **({"matrix": matrix} if matrix else {})}
    Path("mine/plan.json").write_text(json.dumps({"name": "mine", "trials": [trial]}))
    return "mine/plan.json"


def plan(matrix: Mapping[str, Sequence[Any]] | None = None, **function: object) -> Plan:
    """Return such a plan as a command reads it."""
    return read_plans([plan_file(matrix, **function)])[0]


def pack(*plans: Plan) -> Packed:
    """Pack plans, as this machine would with Python 3.11."""
    return pack_plans(plans, Workshop(Paths(Path.cwd(), Path.cwd() / "home"), lambda: "python3.11", lambda _: None))


def functions(found: Packed) -> list[dict[str, Any]]:
    """Return the functions of all trials as they are run."""
    trials = expanded(found.plans[0])
    return [each.plan.target.function.model_dump(exclude_none=True) for each in trials if each.plan.target.function]


def test_code_becomes_a_package_named_by_content_and_folder(tmp_path: Path) -> None:
    """No path of this machine is left in what is stored with the run."""
    found = pack(plan())
    ((key, archive),) = found.archives.items()
    assert key == f"functions/{archive.stem}/before.zip"
    assert functions(found)[0]["package"] == key
    assert str(tmp_path) not in found.plans[0].model_dump_json()
    assert zipfile.ZipFile(archive).namelist() == ["app.py"]
    assert pack(plan()).archives == found.archives


@pytest.mark.parametrize(
    "matrix",
    [
        {"target.function.code": ["before", "after"]},
        {"target.function": [{"code": name, "handler": "app.handler"} for name in ("before", "after")]},
        {
            "target": [
                {"store": "dynamodb", "function": {"code": name, "handler": "app.handler"}}
                for name in ("before", "after")
            ]
        },
    ],
)
def test_each_version_of_a_matrix_is_packed(matrix: dict[str, list[Any]]) -> None:
    """Before against after is one plan."""
    found = pack(plan(matrix))
    assert [each["package"].rpartition("/")[2] for each in functions(found)] == ["before.zip", "after.zip"]
    assert len(found.archives) == 2


def test_trials_of_versions_have_the_folders_names() -> None:
    """A picture says `before` and `after`, not two sums of 64 digits."""
    (packed,) = pack(plan({"target.function.code": ["before", "after"]})).plans
    assert [each.name for each in expanded(packed)] == ["dynamodb.package-before", "dynamodb.package-after"]


def test_a_path_of_the_command_is_relative_to_where_it_is_typed() -> None:
    """The plan's own is relative to the plan."""
    assert main(["validate", plan_file(), "--set", "trials[0].target.function.code=mine/after"]) == 0
    assert main(["validate", plan_file(), "--set", "trials[0].target.function.code=after"]) == 2


def test_a_problem_has_its_place_in_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """Path, value, remedy."""
    assert main(["validate", plan_file({"target.function.code": ["before", "gone"]})]) == 2
    said = capsys.readouterr().err
    assert "trials[0].matrix.target.function.code: is no folder" in said
    assert str(Path("mine/gone").absolute()) in said


def test_a_deployed_stack_takes_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    """It would run code; the remedy is a name."""
    assert main(["validate", plan_file(), "--stack"]) == 2
    assert main(["run", plan_file(), "--stack", "any"]) == 2
    assert capsys.readouterr().err.count('give its "name"') == 2


def test_a_function_by_name_passes_unchanged() -> None:
    """It is deployed already."""
    document = {"name": "x", "trials": [{"target": {"store": "s3", "function": {"name": "f"}}, "phases": PHASES}]}
    named = parse_plan(document)
    assert pack(named).plans == (named,)
    assert check_codes(named) == {}


def test_values_of_a_file_are_in_no_plan() -> None:
    """Nor does their key depend on them: a hash of a short password is a password."""
    Path("mine/.env").write_text("DB_PASSWORD=s3cret")
    found = pack(plan(variables_file=".env"))
    assert found.variables == {"functions/env.variables.json": {"DB_PASSWORD": "s3cret"}}
    assert "s3cret" not in found.plans[0].model_dump_json()
    assert functions(found)[0]["variables_key"] == "functions/env.variables.json"


def test_a_secret_in_a_plan_is_refused() -> None:
    """A plan is stored with its run."""
    with pytest.raises(PlanError, match="variables_file") as refused:
        plan(variables={"DB_PASSWORD": "s3cret", "MAX_TOKENS": "5"})
    assert "s3cret" not in str(refused.value)
    assert "MAX_TOKENS" not in str(refused.value)


@pytest.mark.parametrize("name", ["AWS_LAMBDA_EXEC_WRAPPER", "STEPBENCH_TRIAL", "1x", "a-b"])
def test_a_variable_that_lambda_would_refuse_is_refused(name: str) -> None:
    """Before anything is created."""
    with pytest.raises(PlanError, match="variables"):
        plan(variables={name: "x"})


def test_node_s_runtime_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one a plan means Python."""
    monkeypatch.setattr("stepbench_tools.local.packing.package.node_runtime", lambda: "nodejs20.x")
    Path("mine/before/app.py").rename("mine/before/app.js")
    Path("mine/before/app.js").write_text("exports.handler = async () => 1")
    assert functions(pack(plan()))[0]["runtime"] == "nodejs20.x"
    with pytest.raises(PlanError, match="two languages"):
        pack(plan({"target.function.code": ["before", "after"]}))


NODE = {"code": "node", "handler": "app.handler"}
PYTHON = {"code": "after", "handler": "app.handler"}


@pytest.mark.parametrize(
    ("matrix", "runtimes"),
    [
        (None, ["nodejs20.x"]),
        ({"target.function.code": ["node", "node2"]}, ["nodejs20.x"] * 2),
        ({"target.function": [NODE, PYTHON]}, ["nodejs20.x", None]),
        ({"target": [{"store": "dynamodb", "function": each} for each in (PYTHON, NODE)]}, [None, "nodejs20.x"]),
        ({"target.function": [NODE, {**NODE, "runtime": "nodejs22.x"}]}, ["nodejs20.x", "nodejs22.x"]),
    ],
)
def test_each_function_of_a_matrix_has_the_runtime_of_its_own_language(
    matrix: dict[str, list[Any]] | None, runtimes: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects have a place for it; a bare list of paths has one for all."""
    monkeypatch.setattr("stepbench_tools.local.packing.package.node_runtime", lambda: "nodejs20.x")
    for name in ("node", "node2"):
        Path("mine", name).mkdir()
        Path("mine", name, "app.js").write_text("exports.handler = async () => 1")
    assert [each.get("runtime") for each in functions(pack(plan(matrix, code="node")))] == runtimes


def test_a_function_that_a_matrix_replaces_needs_no_folder() -> None:
    """It is in no trial."""
    found = pack(plan({"target.function.code": ["before", "after"]}, code="gone"))
    assert [each["package"].rpartition("/")[2] for each in functions(found)] == ["before.zip", "after.zip"]


def test_a_file_of_variables_stays_out_of_every_archive() -> None:
    """Whatever it is called, by a link too, and in the folder of another function of the plan."""
    for name in ("before", "after"):
        Path("mine", name, "settings.txt").write_text("DB_PASSWORD=s3cret")
    Path("mine/before/link.txt").symlink_to("settings.txt")
    other = {"target": {"store": "s3", "function": PYTHON}, "phases": PHASES}
    document = json.loads(Path(plan_file(variables_file="before/settings.txt")).read_text())
    document["trials"].append(other)
    Path("mine/plan.json").write_text(json.dumps(document))
    document["trials"][1]["target"]["function"] = {**PYTHON, "variables_file": "after/settings.txt"}
    Path("mine/other.json").write_text(json.dumps(document))
    found = pack(*read_plans(["mine/plan.json", "mine/other.json"]))
    assert [zipfile.ZipFile(archive).namelist() for archive in found.archives.values()] == [["app.py"]] * 2


def test_a_folder_is_read_once_for_a_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of a rate has the same code in each trial."""
    read: list[Path] = []

    def note(folder: Path, *_: object) -> dict[str, Path]:
        read.append(folder)
        return {}

    found = Handler("app.handler", "app.py", "python")
    monkeypatch.setattr("stepbench_tools.local.packing.package.list_files", note)
    monkeypatch.setattr("stepbench_tools.local.packing.package.find_handler", lambda *_: found)
    check_codes(plan({"writers": [1, 2, 3]}))
    assert len(read) == 1


def test_a_login_for_npm_does_not_stay_where_installing_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt may be long in coming."""
    folder = tmp_path / "mine/before"
    (folder / "app.js").write_text("exports.handler = async () => 1")
    (folder / "package.json").write_text('{"dependencies": {"x": "1"}}')
    (folder / "package-lock.json").write_text("{}")
    (folder / ".npmrc").write_text("_authToken=s3cret")

    def fail(*_: object, **__: object) -> None:
        raise LocalEnvironmentError

    monkeypatch.setattr(dependencies, "run_logged", fail)
    monkeypatch.setattr(dependencies, "run_program", lambda *_: "v20.0.0")
    monkeypatch.setattr("shutil.which", lambda _: "npm")
    with pytest.raises(LocalEnvironmentError):
        pack(plan(runtime="nodejs20.x"))
    assert not list((tmp_path / ".stepbench").rglob(".npmrc"))


def test_checks_load_nothing_of_aws() -> None:
    """They take a tenth of a second else."""
    program = "import sys, stepbench_tools.local.packing.package; print('botocore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_a_manifest_without_a_lock_is_refused() -> None:
    """What would be installed today is not what will be tomorrow."""
    Path("mine/before/app.js").write_text("exports.handler = async () => 1")
    Path("mine/before/package.json").write_text('{"dependencies": {"x": "1"}}')
    wanted = plan(runtime="nodejs20.x")
    with pytest.raises(PlanError, match="package-lock-only"):
        check_codes(wanted)
    Path("mine/before/node_modules").mkdir()
    Path("mine/before/node_modules/x.js").write_text("")
    (found,) = check_codes(wanted).values()
    assert "node_modules/x.js" in found.files


def test_a_missing_installer_is_no_bad_input() -> None:
    """It can be mended without the plan."""
    Path("mine/before/requirements.txt").write_text("idna\n")
    with pytest.raises(LocalEnvironmentError, match="make setup"):
        pack(plan())


def test_requirements_that_are_comments_need_no_installer() -> None:
    """Many folders have an empty file."""
    Path("mine/before/requirements.txt").write_text("# nothing yet\n\n")
    assert pack(plan()).archives


@pytest.mark.parametrize(("included", "said"), [("../more.txt", "outside"), ("gone.txt", "cannot be read")])
def test_included_requirements_stand_in_the_folder(included: str, said: str) -> None:
    """They are part of what is hashed."""
    Path("mine/more.txt").write_text("")
    Path("mine/before/requirements.txt").write_text(f"-r {included}\n")
    with pytest.raises(PlanError, match=said):
        pack(plan())


def test_only_what_was_used_last_is_kept_and_all_of_this_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that only grows fills a disk; what is uploaded next has to be there."""
    monkeypatch.setattr(dependencies, "KEPT", 1)
    found = pack(plan({"target.function.code": ["before", "after"]}))
    kept = tmp_path / ".stepbench/functions/archives"
    assert set(kept.iterdir()) == set(found.archives.values())
    Path("mine/before/more.py").write_text("")
    later = pack(plan())
    assert set(kept.iterdir()) == set(later.archives.values())


def test_labels_tell_folders_apart() -> None:
    """By as much of the path as that takes."""
    assert distinct_labels(["/a/v1/app", "/a/v2/app"]) == {"/a/v1/app": "v1-app", "/a/v2/app": "v2-app"}
    assert distinct_labels(["/a/x y", "/a/x-y"]) == {"/a/x y": "x-y-1", "/a/x-y": "x-y-2"}
    assert distinct_labels(["/.env"]) == {"/.env": "env"}


class _Bucket:
    """A results bucket in memory, and the client that deletes from it."""

    bucket = "results"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.runs = self

    def keys(self, prefix: str) -> Any:  # noqa: ANN401 -- an iterator
        return iter([key for key in self.objects if key.startswith(prefix)])

    def put_file(self, key: str, path: Path) -> None:
        assert key not in self.objects
        self.objects[key] = path.read_bytes()

    def put_bytes(self, key: str, body: bytes, _kind: str) -> None:
        self.objects[key] = body

    def aws(self, _service: str) -> _Bucket:
        return self

    def delete_object(self, Bucket: str, Key: str) -> None:  # noqa: N803 -- boto3's
        assert Bucket == self.bucket
        del self.objects[Key]


def test_values_leave_the_bucket_with_the_run() -> None:
    """Also where the run fails; the archive stays, and is not uploaded again."""
    Path("mine/.env").write_text("DB_PASSWORD=s3cret")
    found, bucket = pack(plan(variables_file=".env")), _Bucket()
    stack: Any = bucket

    def fail() -> None:
        with uploaded(found, stack, lambda _: None):
            assert bucket.objects.keys() == {*found.archives, *found.variables}
            raise RuntimeError

    for _ in range(2):
        with pytest.raises(RuntimeError):
            fail()
        assert bucket.objects.keys() == found.archives.keys()
