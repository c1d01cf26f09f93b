"""Records of message trace, as text and read back."""
