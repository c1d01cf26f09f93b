"""Commands about this machine: what it can do, what runs have left on it, images of nodes."""
