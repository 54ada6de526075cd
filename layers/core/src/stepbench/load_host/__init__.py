"""A load host: a machine that runs writers in place of Lambda's sandboxes. `python -m stepbench.load_host`."""
