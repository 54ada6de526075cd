"""Shapes of `dataflow` that cross a boundary: DAGs in a plan, rows of tasks, results."""
