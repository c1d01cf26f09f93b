"""Rules about availability: sends and deliveries resume after a fault, and nodes stay up."""
