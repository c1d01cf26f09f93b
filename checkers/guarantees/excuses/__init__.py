"""Excuses: which fault makes which anomaly legal, where, and for how long."""
