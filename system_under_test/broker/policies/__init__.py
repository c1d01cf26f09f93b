"""Decisions in which a hardened and a faithful broker differ."""
