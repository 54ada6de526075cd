"""Generators of documents: the API description, the cost guide, the drawings of the machines."""
