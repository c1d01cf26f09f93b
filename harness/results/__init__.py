"""What is known of a run once it has ended: its facts, its result, its exit status."""
