"""Puts the parts of a broker together, and opens, starts and stops them."""
