"""Verdicts and progress as lines on a terminal."""
