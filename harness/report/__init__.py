"""Renders a run for people."""
