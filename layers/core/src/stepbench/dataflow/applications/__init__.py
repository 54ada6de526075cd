"""
Applications that DAGs are made of: a module each, found by its name, so that a new one is one module and no more.

A module has `TASKS` and, where its DAGs have an input, `MAKERS`; `LIBRARIES` are what it imports late. Which Lambda
function has them in its layers is told by `stepbench.contracts.dataflow.FUNCTIONS`.
"""
