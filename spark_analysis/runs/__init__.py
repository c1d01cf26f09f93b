"""Runs to analyse: where they lie, how they are laid out, and what is judged at a time."""
