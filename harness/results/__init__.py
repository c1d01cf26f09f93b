"""Results of a run that has ended: what it found, its status, what each fault came to."""
