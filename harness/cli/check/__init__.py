"""`staticfire check`: judges histories and folders of runs again."""
