"""A plan's thresholds: the grammar of one sentence, and what became of each in each window."""
