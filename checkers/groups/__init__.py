"""Rules about consumer groups: ownership, exclusive work, shares, subscriptions, broadcasting."""
