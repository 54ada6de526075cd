"""A run's numbers computed again from its records: `__main__` says how."""
