"""Measures how well the harness finds the planted bugs of the museum, and mutants of the system."""
