"""Producers: sends, batches, transactions, requests, send-back, trace."""
