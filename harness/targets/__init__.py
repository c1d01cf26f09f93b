"""What is tested: how each node of it is configured and started."""
