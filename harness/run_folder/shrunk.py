"""The files that `staticfire shrink` writes below the folder of a run."""

from __future__ import annotations

SHRUNK_FOLDER = "shrunk"
SHRUNK_CAMPAIGN = "shrunk.toml"
TEST_FILE = "test_shrunk.py"
TEXT_FILE = "shrunk.txt"
STORY_FILE = "story.txt"
