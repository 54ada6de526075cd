"""
What takes too long for each change, part by part: `make nightly`, or `make nightly PART="faults browser"`.

Each part is bounded, its output is shown as it comes, and a table of all parts ends the run. A part that this machine
cannot run is named with what it lacks. The exit code is 0 if nothing failed, 1 otherwise, 2 for a part there is not.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from typing import NamedTuple

from tests.suite.parts import PARTS

PYTEST = (sys.executable, "-m", "pytest", "--numprocesses=3", "--dist=loadscope", "--no-loadscope-reorder")
MAKE = ("make", "--no-print-directory")
OUT_OF_TIME = (124, 137)
"""Exit codes of timeout(1), and of what it had to kill."""
KILL_AFTER_S = 60
TAIL_LINES = 40
CLOSING = re.compile(r"=+ (.*\d+ (?:passed|failed|error|deselected|skipped).*) =+$")


class Part(NamedTuple):
    """A part of the nightly run: its command, how long it may take, and the program without which it cannot run."""

    command: tuple[str, ...]
    limit_s: int
    about: str
    needs: str = "make"


class Ended(NamedTuple):
    """How a part ended: pytest's own closing line where it has one."""

    name: str
    seconds: float
    code: int
    closing: str

    @property
    def verdict(self) -> str:
        """Return ok, failed or out of time."""
        if self.code == 0:
            return "ok"
        return "out of time" if self.code in OUT_OF_TIME else "failed"


LIMITS_S = {"api": 1_200, "cassandra": 900, "faults": 1_200, "layers": 900, "permissions": 900}
"""Of parts that take longer than most."""
USUAL_LIMIT_S = 600
WITH_CASES = {"api": (*MAKE, "test-api")}


def all_parts() -> dict[str, Part]:
    """Return every part by its name: those that a mark names, and suites of their own."""
    marked = {
        name: Part(WITH_CASES.get(name, (*PYTEST, f"--nightly={name}")), LIMITS_S.get(name, USUAL_LIMIT_S), about)
        for name, about in PARTS.items()
    }
    return marked | {
        "tour": Part((*MAKE, "test-faults"), 2_400, "every process of a run killed, stopped and slowed"),
        "ministack": Part((*MAKE, "test-emulator", "EMULATOR=ministack"), 1_500, "a rehearsal and a deletion"),
        "localstack": Part((*MAKE, "test-emulator", "EMULATOR=localstack"), 1_500, "the machines on another emulator"),
        "sam-local": Part((*MAKE, "test-sam-local"), 5_400, "every function in Docker", "docker"),
        "security": Part((*MAKE, "check-security"), 300, "the templates by checkov's rules"),
    }


def can_run(part: Part) -> bool:
    """Tell whether this machine has the program that a part needs, and for Docker its daemon."""
    if shutil.which(part.needs) is None:
        return False
    if part.needs != "docker":
        return True
    try:
        return subprocess.run(["docker", "info"], check=False, capture_output=True, timeout=30).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def run(name: str, part: Part) -> Ended:
    """Run a part to its end or its limit, and show what it writes."""
    began = time.monotonic()
    command = ["timeout", "--signal=INT", f"--kill-after={KILL_AFTER_S}", str(part.limit_s), *part.command]
    sys.stdout.write(f"\n===== {name}: {part.about} (at most {part.limit_s} s)\n$ {' '.join(part.command)}\n")
    sys.stdout.flush()
    tail = deque[str](maxlen=TAIL_LINES)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None  # a pipe was asked for
        try:
            for line in process.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                tail.append(line.rstrip())
        except BaseException:
            process.terminate()  # it has a process group of its own
            raise
    return Ended(name, time.monotonic() - began, process.returncode, closing_line(tail))


def closing_line(lines: deque[str]) -> str:
    """Return what pytest's last line says, without its frame; nothing of a program that has none."""
    return next((found[1] for line in reversed(lines) if (found := CLOSING.match(line))), "")


def table(ended: list[Ended], left_out: list[str]) -> str:
    """Return a line for each part, and one for each that could not run here."""
    width = max((len(each.name) for each in ended), default=0)
    lines = [f"{each.name:{width}}  {each.seconds:6.0f} s  {each.verdict:11}  {each.closing}" for each in ended]
    lines.append(f"{'all':{width}}  {sum(each.seconds for each in ended):6.0f} s")
    return "\n".join([*lines, *left_out])


def main(names: list[str]) -> int:
    """Run the parts of these names, or all of them; return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parts = all_parts()
    if unknown := [name for name in names if name not in parts]:
        sys.stderr.write(f"no such part: {', '.join(unknown)}; the parts are {', '.join(parts)}\n")
        return 2
    chosen = {name: parts[name] for name in names or parts}
    possible = {name: part for name, part in chosen.items() if can_run(part)}
    left_out = [f"{name} was left out: no {part.needs} here" for name, part in chosen.items() if name not in possible]
    ended = [run(name, part) for name, part in possible.items()]
    sys.stdout.write(f"\n===== make nightly\n{table(ended, left_out)}\n")
    return int(any(each.code for each in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
