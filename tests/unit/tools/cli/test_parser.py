"""All commands together: arguments, help, failures, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from botocore.exceptions import NoCredentialsError, NoRegionError
from botocore.parsers import create_parser
from botocore.session import get_session
from tests.unit.tools.cli.conftest import here

from stepbench import __version__
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.cli import main
from stepbench_tools.local.running import RunAbandonedError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LocalEnvironmentError("etcd does not start"), "stepbench: etcd does not start\n"),
        (NoCredentialsError(), "stepbench: AWS: no credentials are set; set AWS_PROFILE"),
        (NoRegionError(), "stepbench: AWS: no region is set; set AWS_DEFAULT_REGION"),
        (
            ModuleNotFoundError("No module named 'rich'"),
            "stepbench: No module named 'rich'; install stepbench[analysis,local,report,stores]",
        ),
        (OSError(28, "No space left on device"), "stepbench: [Errno 28] No space left on device\n"),
        (subprocess.TimeoutExpired("etcd", 10), "stepbench: Command 'etcd' timed out after 10 seconds\n"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_4(
    monkeypatch: pytest.MonkeyPatch, plan: str, capsys: pytest.CaptureFixture[str], error: BaseException, said: str
) -> None:
    """A traceback tells a user nothing that they could act on."""
    here(monkeypatch, error)
    assert main(["run", plan]) == 4
    assert capsys.readouterr().err.startswith(said)


def test_what_awss_library_cannot_read_is_no_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that AWS_ENDPOINT_URL names may answer anything, at which botocore breaks by a RecursionError."""
    shape = get_session().get_service_model("dynamodb").operation_model("DescribeTable").output_shape
    assert shape is not None
    with pytest.raises(RecursionError) as caught:
        create_parser("json").parse({"status_code": 200, "headers": {}, "body": b"[" * 100_000}, shape)
    here(monkeypatch, caught.value)
    assert main(["run", plan]) == 4
    assert capsys.readouterr().err.startswith("stepbench: AWS, or what stands for it, answers what its library")


def test_a_mistake_of_our_own_and_an_interruption_have_codes_of_their_own(
    monkeypatch: pytest.MonkeyPatch, plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline would else take either for a regression; whoever reports the first needs the traceback."""
    here(monkeypatch, KeyboardInterrupt())
    assert main(["run", plan]) == 130
    assert capsys.readouterr().err == "stepbench: interrupted\n"
    here(monkeypatch, RunAbandonedError("the emulator is gone"))
    assert main(["run", plan]) == 1
    assert capsys.readouterr().err == "stepbench: the emulator is gone\n"
    here(monkeypatch, TypeError("nobody thought of it"))
    assert main(["run", plan]) == 5
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):")
    assert "please report it with the lines above (TypeError('nobody thought of it'))" in said


@pytest.mark.parametrize(
    ("variable", "value"), [("AWS_ENDPOINT_URL", "localhost:4566"), ("AWS_METADATA_SERVICE_TIMEOUT", "soon")]
)
def test_a_variable_that_boto3_cannot_use_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, plan: str, capsys: pytest.CaptureFixture[str], variable: str, value: str
) -> None:
    """It ended in a traceback and exit code 1, a regression's."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv(variable, value)
    assert main(["run", plan, "--stack", "bench"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"stepbench: {variable}: cannot be used: ")
    assert said.endswith(f"(got {value}). Correct {variable}, or unset it.\n")


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


def test_a_reader_that_has_enough_is_no_traceback(tmp_path: Path) -> None:
    """In `stepbench schema | head -1` the schema is longer than the pipe's reader takes."""
    program = [sys.executable, "-c", "import sys; from stepbench_tools.cli import main; sys.exit(main(['schema']))"]
    with (tmp_path / "err").open("w+b") as errors:
        read, write = os.pipe()
        os.close(read)
        code = subprocess.run(program, stdout=write, stderr=errors, check=False, timeout=60).returncode
        os.close(write)
        errors.seek(0)
        assert (code, errors.read()) == (0, b"")


@pytest.mark.parametrize("arguments", ["--help", "--version", "plans", "plans show quick-unloaded", "stores", "schema"])
def test_a_reader_that_leaves_at_once_changes_no_exit_code(arguments: str) -> None:
    """`--help | true` ended with 120 and "Exception ignored", a comparison with 1 as if it had found something."""
    command = f"{sys.executable} -m stepbench_tools.cli {arguments} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_characters_that_an_encoding_lacks_are_replaced() -> None:
    """A Latin-1 locale ended a comparison with exit code 1."""
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "stepbench_tools.cli", "plans"]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


def test_help_waits_for_no_library() -> None:
    """A shell asks for completions and help at every key; contracts, AWS and statistics take half a second."""
    program = "import sys, stepbench_tools.cli.parser as p; p.build_parser().format_help(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & {"botocore", "jinja2", "numpy", "pydantic", "rich", "yaml"} == set()


def test_it_can_be_run_as_a_module() -> None:
    """Where the script is not on PATH."""
    program = [sys.executable, "-m", "stepbench_tools.cli", "--version"]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"stepbench {__version__}\n"


@pytest.mark.parametrize("arguments", [["-v", "run"], ["run", "--verbose"]])
def test_verbose_shows_where_an_error_came_from(
    monkeypatch: pytest.MonkeyPatch, plan: str, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """One line is for users; who reports a bug needs the rest, whichever side of the command the option stands."""
    here(monkeypatch, LocalEnvironmentError("etcd does not start"))
    assert main([*arguments, plan]) == 4
    error = capsys.readouterr().err
    assert error.startswith("Traceback (most recent call last):")
    assert error.endswith("\nstepbench: etcd does not start\n")


COMPLETE = """
eval "$({python} -m stepbench_tools.cli completion bash)"
COMP_WORDS=(stepbench {words}); COMP_CWORD={last}
_shtab_stepbench
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("val", ["validate"]),
        ("run quick-unloaded-e", ["quick-unloaded-etcd"]),
        ("validate quick-sql paper-dsql-m", ["paper-dsql-multiregion"]),
        ("plans show ycsb-a", ["ycsb-a"]),
        ("run --rep", ["--repeats"]),
        ("report latest --format m", ["md"]),
    ],
)
def test_bash_completes_commands_options_and_presets(words: str, found: list[str]) -> None:
    """Presets have names of forty letters, and nobody types them."""
    script = COMPLETE.format(python=sys.executable, words=words, last=len(words.split()))
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == found, done.stderr


@pytest.mark.parametrize(("shell", "begin"), [("zsh", "#compdef stepbench"), ("tcsh", "#")])
def test_other_shells_get_their_scripts(capsys: pytest.CaptureFixture[str], shell: str, begin: str) -> None:
    """Presets are in each of them."""
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert text.startswith(begin)
    assert "quick-unloaded" in text


@pytest.mark.parametrize("given", ["0", "-1", "1000.5", "nan"])
def test_a_tolerance_is_above_0(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """However little, but not none: two runs are never the same."""
    with pytest.raises(SystemExit):
        main(["compare", "a", "b", f"--tolerance={given}"])
    assert f"argument --tolerance: {given} is not above 0 and up to 1,000" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["0.00001", "1000"])
def test_any_tolerance_above_0_is_taken(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As the API takes it."""
    assert main(["compare", "a", "b", f"--tolerance={given}"]) == 2
    assert "--tolerance" not in capsys.readouterr().err
