"""Declares the anomalies: the definition of each, the promise that it breaks, and its judgement by mode."""
