"""From a stored record to an acknowledged one: flush, replication, commit, retention."""
