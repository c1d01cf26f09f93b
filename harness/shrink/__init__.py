"""Shrinks a failing run."""
