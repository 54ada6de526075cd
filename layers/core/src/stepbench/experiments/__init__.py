"""What each experiment has of its own, a room each; what they share stands below."""
