"""One driver per store under test. `build_driver` is the registry."""
