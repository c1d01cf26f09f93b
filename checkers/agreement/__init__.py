"""Rules about the evidence itself: what was looked up, drained and observed must agree."""
