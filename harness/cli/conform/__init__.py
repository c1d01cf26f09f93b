"""`staticfire conform`: its options, and what it does with them."""
