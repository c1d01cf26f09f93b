"""All kinds by name, and seeded plans of them."""
