"""Builds columns and a timeline from ops."""
