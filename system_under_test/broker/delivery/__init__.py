"""Services for delayed messages, retries, transactions and replies."""
