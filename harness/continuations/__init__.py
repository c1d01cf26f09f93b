"""Continuations of a simulated run: it is rewound to a virtual time, and goes on differently from there."""
