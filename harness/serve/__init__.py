"""The web view of a folder of runs: tables, single runs, comparisons, runs in progress, hunts and reports."""
