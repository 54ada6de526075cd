"""
Applications that DAGs are made of: a module each, found by its name, so that a new one is one module.

A module has `TASKS` and, where its DAGs have an input, `MAKERS`, functions by name, and their `PARAMETERS`. `LIBRARIES`
are what it imports late. An application that needs more than NumPy has Lambda functions of its own, with a layer:
`stepbench.contracts.dataflow.FUNCTIONS` and `MAKERS` tell which.
"""
