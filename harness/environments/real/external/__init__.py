"""An external cluster at an address: the harness starts only clients."""
