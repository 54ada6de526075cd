"""The search for a configuration: models are fitted to measured runs, and confirmed by further ones."""
