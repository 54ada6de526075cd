"""
Pure functions from arrays to numbers with intervals; no AWS, no I/O. Which method is used when: `docs/measurement.md`.

Values are floats in the unit of the caller, `inf` where a value is missing (it had not arrived by the drain limit).
"""
