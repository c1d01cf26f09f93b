"""Takes a record from stored to acknowledged: flush, replication, commit; and runs retention."""
