"""Checkers of availability: sends and deliveries resume after a fault, and nodes keep running."""
