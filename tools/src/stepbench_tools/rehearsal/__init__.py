"""A rehearsal: a stack deployed once to an account, run, checked against what was assumed of AWS, and deleted."""
