"""A function's folder on this machine, checked and packed as Lambda takes it; nothing of it is executed."""
