"""
The report turns results into sentences and one self-contained page. It knows no AWS.

Here stands what charts and their data have to agree on: the charts' sources import it where no library is installed.
"""

BOX_QUANTILES = ("p1", "p25", "p50", "p75", "p90", "p99")
BOX_ROW_PX, MATRIX_ROW_PX, SHARE_ROW_PX, SIDES_ROW_PX = 46, 40, 38, 62
"""The height of a chart's row, by the kind of chart."""
