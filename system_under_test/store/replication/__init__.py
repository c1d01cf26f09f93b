"""The HA protocol without input and output: both sides, and what decides."""
