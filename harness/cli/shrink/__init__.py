"""The command that makes a failing run small."""
