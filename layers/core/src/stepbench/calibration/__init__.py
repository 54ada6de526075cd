"""The instrument against a truth that it did not make: pure, from joined records and the reference store's log."""
