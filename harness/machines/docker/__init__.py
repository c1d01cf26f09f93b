"""Containers as machines, through the Docker SDK."""
