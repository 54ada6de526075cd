"""
Applications that DAGs are made of: a module each, found by its name, so that a new one is one module.

A module has `TASKS` and, where its DAGs have an input, `MAKERS`, functions by name, and their `PARAMETERS`: the names
alone, or each with its kind (`application_parameters`, beside this folder), which a plan's values are then held to.
`CHECKS` are rules among several parameters. `LIBRARIES` are what it imports late. An application that needs more than
NumPy has Lambda functions of its own, with a layer: `FUNCTIONS` and `MAKERS` of `contracts.dataflow.dag` say which.
"""
