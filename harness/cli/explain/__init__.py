"""Commands that say why a recorded run failed, and show what it was like inside."""
