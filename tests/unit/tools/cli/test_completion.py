"""The completion of shells, as bash itself makes it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stepbench_tools.cli import main

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
