"""Which configuration a store is given: searched for offline, confirmed on fresh starts, decided on while it runs."""
