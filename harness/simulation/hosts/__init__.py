"""Hosts and their processes: an event loop, a clock and a log each, and the world that holds them."""
