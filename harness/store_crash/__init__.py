"""The store alone on a simulated disk, crashed thousands of times and compared with a model."""
