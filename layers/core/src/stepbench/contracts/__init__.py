"""Every shape that crosses a boundary: plans in, tasks between states, records in storage, results out."""
