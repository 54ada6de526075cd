"""How MiniStack is started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench_tools.local.paths import Paths

NAME = "MiniStack 1.5.33"
TOOL = "emulator"
START_S = 60.0
RUNS_TASKS = True
"""Those of ECS are processes: `tasks.py`."""
CONCURRENCY = "LAMBDA_ACCOUNT_CONCURRENCY"
"""Variable with the account's limit of invocations at once."""
DECISIONS = "STEPBENCH_DECISIONS"
"""Variable with a file: functions may then do what their roles allow, and nothing else; the file has each decision."""

TASKS_AT_ONCE = "STEPBENCH_TASKS_AT_ONCE"
"""Variable with a number: further ECS tasks then find no capacity."""


def environment(_paths: Paths, port: int, scratch: Path, wait_scale: float) -> dict[str, str]:
    """Return its own variables."""
    return {
        "S3_DATA_DIR": str(scratch / "s3"),
        "STATE_DIR": str(scratch / "state"),
        "GATEWAY_PORT": str(port),
        "LOG_LEVEL": "WARNING",
        "SFN_WAIT_SCALE": f"{wait_scale:g}",
        "ECS_TASKS_AT_ONCE": os.environ.get(TASKS_AT_ONCE, ""),
        **({"AUTH": "true", "DECISIONS": os.environ[DECISIONS]} if os.environ.get(DECISIONS) else {}),
    }
