"""What a broker writes on its own account: delays, retries, transactions, replies."""
