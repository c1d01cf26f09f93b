"""Ops, histories and columns that every rule reads, and the arithmetic of times and ids."""
