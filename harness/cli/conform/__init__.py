"""`staticfire conform`: runs the conformance suite."""
