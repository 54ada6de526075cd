"""The command `completion`: what a shell needs to complete commands, options and presets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from stepbench_tools.cli.command import OK, PLAN, Command, argument
from stepbench_tools.cli.streams import write

if TYPE_CHECKING:
    from collections.abc import Iterator

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


COMMANDS = (
    Command(
        "completion",
        completion,
        "print the completion of a shell: commands, options, presets",
        (argument("shell", choices=SHELLS, help="for which shell"),),
        epilog=_USE,
    ),
)
