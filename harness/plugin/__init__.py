"""The pytest plugin: fixtures for local clusters, and the campaign marker."""
