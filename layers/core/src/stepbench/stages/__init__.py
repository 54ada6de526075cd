"""The use cases: one module per Task state or entry point, each `stage(task, services) -> output`."""
