"""The embedded AWS emulator."""
