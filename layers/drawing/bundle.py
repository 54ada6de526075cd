"""Write Vega, Vega-Lite and vega-embed to stdout, as one script; without the layer, `report/figures.py` makes it."""

from __future__ import annotations

import sys

import vl_convert

SNIPPET = "window.vegaEmbed = vegaEmbed; window.vega = vega;"

if __name__ == "__main__":
    sys.stdout.write(vl_convert.javascript_bundle(SNIPPET))
