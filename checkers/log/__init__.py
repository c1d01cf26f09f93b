"""Rules about the log of messages: loss, duplication, order, offsets, polls, recovery, queries."""
