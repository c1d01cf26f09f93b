"""Assembles the parts of a broker, and opens, starts and stops them."""
