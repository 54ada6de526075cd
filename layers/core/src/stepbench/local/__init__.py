"""The embedded run: emulator, local stores, clock reference, deployment and progress on one machine, on loopback."""
