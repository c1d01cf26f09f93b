"""The HA protocol without input and output: both sides, and the policy."""
