"""Commands that explain why a recorded run failed, and show the state of its nodes."""
