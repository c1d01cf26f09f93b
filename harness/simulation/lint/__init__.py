"""Finds ways out of the simulation in the source of a system: clocks, threads, sets in iteration order."""
