"""What became of every scheduled event."""
