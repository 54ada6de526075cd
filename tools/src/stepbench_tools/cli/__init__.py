"""The command line: a module for each family of commands, and `parser` over them. Data to stdout, words to stderr."""

from stepbench_tools.cli.parser import main

__all__ = ["main"]
