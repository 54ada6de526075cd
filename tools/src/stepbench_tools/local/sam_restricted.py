"""
SAM CLI with containers as Lambda's sandboxes: an unprivileged user, a read-only root, and a /tmp of 512 MB.

`sam local` has no option for these. Run by path with the interpreter of SAM CLI's environment, so it imports nothing of
ours.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

OPTIONS = {
    "user": "993:990",
    "read_only": True,
    "tmpfs": {"/tmp": "size=512m,mode=1777"},  # noqa: S108 -- the container's
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
}
"""Docker's, as its Python library names them. The ids are those of Lambda's own user."""


def restrict(container: Any) -> None:  # noqa: ANN401 -- the class `LambdaContainer`
    """
    Let SAM CLI make such containers.

    Raises:
        SystemExit: this version of SAM CLI has another way of making them.
    """
    if not hasattr(container, "_get_additional_options"):
        sys.exit("this version of SAM CLI does not let us choose how containers are made; leave --restricted out")
    container._get_additional_options = staticmethod(lambda _runtime, _debug: dict(OPTIONS))  # noqa: SLF001 -- no option


def main() -> None:
    """Run SAM CLI with its own arguments."""
    restrict(import_module("samcli.local.docker.lambda_container").LambdaContainer)
    import_module("samcli.cli.main").cli(prog_name="sam")


if __name__ == "__main__":
    main()
