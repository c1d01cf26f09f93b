"""Campaigns drawn from a seed, and the limits that every campaign keeps."""
