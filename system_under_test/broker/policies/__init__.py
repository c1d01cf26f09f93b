"""Where a hardened and a faithful broker decide differently."""
