"""Calibration compares joined records with the reference store's log, a truth not its own. Pure."""
