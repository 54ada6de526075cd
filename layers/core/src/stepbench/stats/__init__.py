"""
Pure functions turn arrays into numbers with intervals; no AWS, no I/O. `docs/statistics.md` says which method is used.

Values are floats in the unit of the caller, `inf` where a value is missing (it had not arrived by the drain limit).
"""
