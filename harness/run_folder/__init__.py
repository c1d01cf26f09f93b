"""The folder of a run: history, facts, observations, verdict and their checksums."""
