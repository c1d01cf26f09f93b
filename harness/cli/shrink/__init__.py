"""`staticfire shrink` and `staticfire resimulate`: make a failing run small."""
