"""Measures a Python function of somebody's own: `bootstrap.handler` stands for the function's handler."""
