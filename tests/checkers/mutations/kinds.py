"""The list that mutations and oddities register in."""

from tests.checkers.mutations.model import Kinds

KINDS = Kinds()
