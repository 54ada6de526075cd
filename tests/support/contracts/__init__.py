"""What every driver has to do, as pytest classes for its own tests."""
