"""Renders a run as text, Markdown, JSON and JUnit."""
