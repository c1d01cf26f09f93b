"""Crashes the store alone, on a simulated disk, thousands of times, and compares it with a model."""
