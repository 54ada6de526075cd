"""A run in Markdown and JUnit, and runs side by side."""
