"""The HTTP API, by which other teams start runs and read their results."""
