"""Ops, histories and columns: what every rule reads, and the arithmetic of times and ids."""
