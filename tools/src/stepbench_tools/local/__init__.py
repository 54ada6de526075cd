"""The embedded run has emulator, local stores, clock reference, deployment and progress on one machine, on loopback."""
