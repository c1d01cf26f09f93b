"""Verdicts over histories of any size: the kernels of `checkers` on Spark, and histories made to try them."""
