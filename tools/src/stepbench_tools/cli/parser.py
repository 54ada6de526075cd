"""All commands, and their completion: arguments in, one command run, its failure in one line, an exit code out."""

from __future__ import annotations

import argparse
import subprocess
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import stepbench
from stepbench.errors import PlanError, RunFailedError, StepbenchError
from stepbench_tools.cli import environment, first_plan, plans, prices, reports, running, runs, tuning
from stepbench_tools.cli.command import (
    BAD_INPUT,
    CRASHED,
    EXIT_CODES,
    FAILED,
    INTERRUPTED,
    NOT_DONE,
    OK,
    PLAN,
    Command,
    OneOf,
    argument,
    write,
    write_errors,
)
from stepbench_tools.local.streams import dropping_messages, keeping_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench_tools.cli.command import Argument


SHELLS = ("bash", "zsh", "tcsh")
_FUNCTION = "_stepbench_plans"
_USE = (
    'In ~/.bashrc: eval "$(stepbench completion bash)". In zsh: stepbench completion zsh > FOLDER/_stepbench, with a '
    "folder of your fpath. In ~/.tcshrc: stepbench completion tcsh | source /dev/stdin."
)


def completion(options: argparse.Namespace) -> int:
    """Print the shell's script; presets are those of this version."""
    import shtab

    from stepbench.planning import list_plans

    complete = _completion(" ".join(list_plans()))
    for action in _plan_arguments(options.parser):
        vars(action)["complete"] = complete  # where shtab looks
    write(shtab.complete(options.parser, options.shell))
    return OK


def _plan_arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments that name plans, of all commands."""
    for action in parser._actions:  # noqa: SLF001 -- argparse has no other way to its actions
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for inner in dict.fromkeys(action.choices.values()):
                yield from _plan_arguments(inner)
        elif action.metavar == PLAN:
            yield action


def _completion(presets: str) -> dict[str, Any]:
    """Return how each shell completes a plan's name, as shtab takes it: presets and files."""
    bash = f'{_FUNCTION}() {{\n  compgen -W "{presets}" -- "$1"\n  compgen -f -- "$1"\n}}\n'
    zsh = f"{_FUNCTION}() {{\n  compadd -- {presets}\n  _files\n}}\n"
    return {
        "bash": _FUNCTION,
        "zsh": _FUNCTION,
        "tcsh": f"`echo {presets}; ls`",
        "preamble": {"bash": bash, "zsh": zsh},
    }


COMMANDS: tuple[Command, ...] = (
    *running.COMMANDS,
    *plans.COMMANDS,
    *first_plan.COMMANDS,
    *reports.COMMANDS,
    *runs.COMMANDS,
    *tuning.COMMANDS,
    *prices.COMMANDS,
    *environment.COMMANDS,
    Command(
        "completion",
        completion,
        "print the completion of a shell: commands, options, presets",
        (argument("shell", choices=SHELLS, help="for which shell"),),
        epilog=_USE,
    ),
)
"""All commands, as `--help` lists them."""

VOLUME = OneOf(
    (
        argument("-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="only results and errors"),
        argument(
            "-v",
            "--verbose",
            action="store_true",
            default=argparse.SUPPRESS,
            help="print what local servers and tools write, too, and tracebacks",
        ),
    )
)
"""These options may stand before a command or after it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit code. A failure is one line, and a traceback where the mistake is ours.

    Raises:
        SystemExit: help and version were asked for, or the arguments are wrong.
    """
    with dropping_messages():
        with keeping_data() as data:
            code = _run_command(build_parser().parse_args(arguments))
        if data.error is not None:
            write_errors(f"stdout: {data.error}")
            return code or NOT_DONE
        return code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="stepbench",
        description="Latency of the data stores behind serverless applications, measured with an error bar.",
        epilog=f"Exit codes: {EXIT_CODES}.",
    )
    parser.add_argument("--version", action="version", version=f"stepbench {stepbench.__version__}")
    _add_arguments(parser, (VOLUME,))
    parser.set_defaults(quiet=False, verbose=False, parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        _add_command(commands, command)
    return parser


def _add_command(commands: Any, command: Command) -> None:  # noqa: ANN401 -- argparse's own type is private
    description = f"{command.text[0].upper()}{command.text[1:]}."
    parser = commands.add_parser(command.name, help=command.text, description=description, epilog=command.epilog)
    parser.set_defaults(command=command.run)
    _add_arguments(parser, (*command.arguments, VOLUME))
    if command.commands:
        inner = parser.add_subparsers(title="commands", metavar="COMMAND")
        for below in command.commands:
            _add_command(inner, below)


def _add_arguments(parser: Any, entries: Iterable[Argument | OneOf]) -> None:  # noqa: ANN401 -- or a group of argparse's
    for entry in entries:
        if isinstance(entry, OneOf):
            _add_arguments(parser.add_mutually_exclusive_group(), entry.arguments)
        else:
            parser.add_argument(*entry.names, **entry.options)


def _run_command(options: argparse.Namespace) -> int:
    try:
        with _traceback_if(wanted=options.verbose):
            code: int = options.command(options)
    except PlanError as error:
        write_errors(*(str(problem) for problem in error.problems))
        return BAD_INPUT
    except StepbenchError as error:
        write_errors(str(error))
        return FAILED if isinstance(error, RunFailedError) else NOT_DONE
    except KeyboardInterrupt:
        write_errors("interrupted")
        return INTERRUPTED
    except ModuleNotFoundError as error:
        write_errors(f"{error}; install stepbench[analysis,local,report,stores], as `make setup` does")
    except (OSError, subprocess.SubprocessError) as error:
        write_errors(str(error))
    except _aws_errors() as error:
        write_errors(f"AWS: {_describe(error)}")
    except Exception as error:  # noqa: BLE001 -- whatever it is, it gets a code of its own
        return _report_crash(error, traced=options.verbose)
    else:
        return code
    return NOT_DONE


@contextmanager
def _traceback_if(*, wanted: bool) -> Iterator[None]:
    try:
        yield
    except (Exception, KeyboardInterrupt):
        if wanted:
            traceback.print_exc()
        raise


def _aws_errors() -> tuple[type[Exception], ...]:
    """Return what AWS's library raises; it is loaded here, where something has been raised."""
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError


def _report_crash(error: Exception, *, traced: bool) -> int:
    if _is_of_botocore(error):
        write_errors(f"AWS, or what stands for it, answers what its library cannot read: {error!r}")
        return NOT_DONE
    if not traced:
        traceback.print_exc()
    write_errors(f"this is a mistake of Stepbench's own; please report it with the lines above ({error!r})")
    return CRASHED


def _is_of_botocore(error: Exception) -> bool:
    """Return whether AWS's library broke, as it does at a redirect to itself, or at an answer of another shape."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(frame.f_globals.get("__name__")).startswith("botocore.") for frame in frames)


def _describe(error: Exception) -> str:
    if type(error).__name__ == "NoRegionError":
        return "no region is set; set AWS_DEFAULT_REGION, or a region in your profile"
    if type(error).__name__ == "NoCredentialsError":
        from stepbench_tools.local.stack import CREDENTIALS_REMEDY

        return f"no credentials are set; {CREDENTIALS_REMEDY}"
    return str(error)
