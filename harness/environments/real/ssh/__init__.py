"""Servers on hosts behind SSH."""
