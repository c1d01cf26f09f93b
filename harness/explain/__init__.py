"""Explanations of failed runs: the cause, and the life of the message that shows it."""
