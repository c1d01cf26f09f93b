"""Generates the parts of docs/ that repeat declarations of the code: `make docs`."""
