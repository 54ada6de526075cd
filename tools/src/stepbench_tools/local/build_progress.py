"""What `sam build` is at, by its own words, for somebody who waits minutes for it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepbench.digits import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVERY_S = 20.0
"""How often the step is reported again while nothing new begins."""
_LAYER = "AWS::Serverless::LayerVersion"
_BEGUN = re.compile(r"^(?:Building layer '|Valid cache found, .* following layers \()(\w+)", re.MULTILINE)


def layers_begun(log: str) -> list[str]:
    """Return the layers that SAM CLI has begun to build or to take from its cache, each once, in that order."""
    return list(dict.fromkeys(_BEGUN.findall(log)))


@dataclass
class BuildProgress:
    """
    The progress of a build is notified when a layer begins, and every `EVERY_S` with the time that it has taken.

    Attributes:
        log: where SAM CLI writes.
        layers: how many the template has.
        notify: prints a sentence.
        now_s: a clock that counts seconds.
    """

    log: Path
    layers: int
    notify: Callable[[str], None]
    now_s: Callable[[], float] = time.monotonic
    _begun: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._start_s = self._notified_s = self.now_s()

    def look(self) -> None:
        """Read the log, and notify what is new."""
        begun = layers_begun(self.log.read_text(errors="replace")) if self.log.exists() else []
        now_s = self.now_s()
        if begun == self._begun and now_s - self._notified_s < EVERY_S:
            return
        self._begun, self._notified_s = begun, now_s
        what = f"{begun[-1]}, {len(begun)} of {counted(self.layers, 'layer')}" if begun else "its functions"
        self.notify(f"building {what}, after {duration(now_s - self._start_s)}")


def count_layers(template: Path) -> int:
    """Return how many layers a template has."""
    return template.read_text(encoding="utf-8").count(_LAYER)
