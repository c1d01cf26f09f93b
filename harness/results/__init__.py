"""Results of a run: its verdict and evidence, its status while it runs, the outcome of each fault."""
