"""The reference store's server: the one subroom of the calibration that does I/O."""
