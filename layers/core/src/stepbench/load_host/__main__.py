"""`python -m stepbench.load_host --queue-url URL --function NAME`: what a load host runs as long as it is up."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from stepbench.load_host import Place, run_load_host


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of what the host's unit gives."""
    parser = argparse.ArgumentParser(prog="stepbench.load_host")
    parser.add_argument("--queue-url", required=True)
    parser.add_argument("--function", required=True, help="RunWriter's name or ARN")
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--machine", required=True, help="what the report calls this host")
    return parser


def main(arguments: Sequence[str]) -> None:
    """Parse, and serve."""
    options = build_parser().parse_args(arguments)
    run_load_host(Place(options.queue_url, options.function, options.at_once, options.machine))


if __name__ == "__main__":
    main(sys.argv[1:])
