"""Checkers of features: delays, retries, transactions, filters, ordered keys, contents, requests and forwarding."""
