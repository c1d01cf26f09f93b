"""The web view of a folder of runs: tables, one run, two compared, a campaign that goes on, hunts and reports."""
