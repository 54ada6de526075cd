"""
`python -m stepbench_tools.local.stores.cassandra DIRECTORY [--fast]`: a node until Ctrl-C, released or fast to start.

Its address and its control's are on standard output, a line each, and in the directory's `serving.json`. Whatever
signal stops it, and whenever, no Java is left behind; where Java ends by itself, it ends, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.interrupts import interruptible, shielded
from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.cassandra.configuration import FAST, as_released
from stepbench_tools.local.stores.cassandra.control import Control
from stepbench_tools.local.stores.cassandra.java import find_installation, jars_of
from stepbench_tools.local.stores.cassandra.node import Node

SERVING = "serving.json"


def main(arguments: list[str]) -> int:
    """Run the program; return 0 after a stop that came when it served, else 1."""
    parser = argparse.ArgumentParser(prog="python -m stepbench_tools.local.stores.cassandra")
    parser.add_argument("directory", type=Path, help="of data and log; made if need be")
    parser.add_argument("--fast", action="store_true", help="start in half the time, with settings for tests only")
    options = parser.parse_args(arguments)
    strangers = {each.pid for each in psutil.Process().children()}
    serves = False
    try:
        with interruptible():
            node = _start(options.directory.resolve(), fast=options.fast)
            with Control(node) as control:
                sys.stdout.write(f"{node.endpoint}\n{control.url}\n")
                sys.stdout.flush()
                serving = {"endpoint": node.endpoint, "control": control.url, "version": node.version}
                (node.directory / SERVING).write_text(json.dumps(serving))
                serves = True
                control.serve()
                sys.stderr.write("Cassandra has ended\n")
                return 1
    except KeyboardInterrupt:
        if not serves:
            sys.stderr.write("asked to stop before Cassandra was up\n")
            return 1
    except (LocalEnvironmentError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        # By parentage: an interrupt may have come before anybody had the pid.
        with shielded():
            terminate([each.pid for each in psutil.Process().children() if each.pid not in strangers])
    return 0


def _start(directory: Path, *, fast: bool) -> Node:
    installation = find_installation(jars_of(find_paths(os.environ, Path.cwd())))
    available_mib = psutil.virtual_memory().available // 2**20
    node = Node(directory, installation, FAST if fast else as_released(available_mib))
    node.start({})
    return node


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
