"""Rules about features: delays, retries, transactions, filters, ordered keys, contents, requests."""
