"""Checkers of transactions with several sends and polls: aborted reads, lost writes and cycles."""
