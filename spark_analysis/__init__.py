"""Judges histories of any size by the kernels of `checkers` on Spark, and makes synthetic histories to test that."""
