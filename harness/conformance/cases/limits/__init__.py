"""Cases about bounds: of requests, of groups, and of what peers make a node keep."""
