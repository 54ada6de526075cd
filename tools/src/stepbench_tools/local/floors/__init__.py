"""Floors are what an invocation and a store take by themselves, on this machine."""
