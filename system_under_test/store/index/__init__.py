"""The index of messages by key: files, recovery, search."""
