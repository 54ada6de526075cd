"""The drawing runtime (Vega, Vega-Lite, vega-embed) as one script, for inlining."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SNIPPET = "window.vegaEmbed = vegaEmbed; window.vega = vega;"
_CLOSES_SCRIPT = re.compile(r"<(/script|!--)", re.IGNORECASE)


@lru_cache(maxsize=1)
def javascript() -> str:
    """
    Vega and its embedder as one script that sets `vegaEmbed` and `vega`, safe inside a script element.

    The function's layer has it ready. Elsewhere it is bundled, once per process: the bundler starts a JavaScript engine
    and takes 4 s of a processor.
    """
    return for_script(_shipped() or _bundled())


def _shipped() -> str | None:
    try:
        return files("stepbench_drawing").joinpath("vega.js").read_text("utf-8")
    except ModuleNotFoundError:
        return None


def _bundled() -> str:
    import vl_convert  # noqa: PLC0415 -- not in the function's layers

    bundle: str = vl_convert.javascript_bundle(_SNIPPET)
    return bundle


@lru_cache(maxsize=1)
def specifications() -> dict[str, Any]:
    """The figures' Vega-Lite specifications by name, as `charts.py` wrote them."""
    found: dict[str, Any] = json.loads(own_file("charts.json").read_text("utf-8"))
    return found


def own_file(name: str) -> Traversable:
    """A file that the package ships beside this module."""
    return files("stepbench.report").joinpath(name)


def for_script(javascript_text: str) -> str:
    r"""JavaScript that cannot end its script element: `</script` inside its strings becomes `<\/script`."""
    return _CLOSES_SCRIPT.sub(lambda found: "<\\" + found[1], javascript_text)


def json_for_script(document: Any) -> str:  # noqa: ANN401 -- any JSON
    """JSON for a script element: no `<`, `>`, `&` and no line separator outside escapes, so nothing can end it."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
