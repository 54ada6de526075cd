"""Shapes of `transfer` that cross a boundary: trials in a plan, rows of reads, results."""
