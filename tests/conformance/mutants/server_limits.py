"""Mutants of RMQ-LIM: limits of name servers and brokers that are off by one, or that are not there."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.sending import large_batches
from staticfire.system_under_test.name_server import kv_config, route_table
from staticfire.system_under_test.remoting.held_memory import HELD_SIZE_MAX, HeldMemory, Holder
from tests.conformance.mutants.mutant import system


@system("RMQ-LIM-14")
def one_character_of_pairs_less(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kv_config, "SIZE_MAX", kv_config.SIZE_MAX - 1)


@system("RMQ-LIM-14")
def one_character_of_pairs_more(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kv_config, "SIZE_MAX", kv_config.SIZE_MAX + 1)


@system("RMQ-LIM-14")
def one_broker_less(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(route_table, "BROKERS_MAX", route_table.BROKERS_MAX - 1)


@system("RMQ-LIM-14")
def one_broker_more(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(route_table, "BROKERS_MAX", route_table.BROKERS_MAX + 1)


@system("RMQ-LIM-15")
def memory_has_no_bound(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HeldMemory, "hold", lambda *_, **__: None)


@system("RMQ-LIM-15")
def memory_is_full_too_early(patch: pytest.MonkeyPatch) -> None:
    init = HeldMemory.__init__
    patch.setattr(HeldMemory, "__init__", lambda self: init(self, HELD_SIZE_MAX - 1))


@system("RMQ-LIM-15")
def all_connections_pay(patch: pytest.MonkeyPatch) -> None:
    hold = HeldMemory.hold

    def end_all(self: HeldMemory, holder: Holder, size: int, *, is_new: bool = False) -> None:
        was_full = self.size == HELD_SIZE_MAX
        hold(self, holder, size, is_new=is_new)
        if was_full and self.size != HELD_SIZE_MAX:
            for one, held_size in list(self._held.items()):
                self.release(one)
                one.refuse_memory(held_size)

    patch.setattr(HeldMemory, "hold", end_all)


@system("RMQ-LIM-16")
def room_for_one_batch_more(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(large_batches, "WAITING_SIZE_MAX", large_batches.WAITING_SIZE_MAX + (1 << 20))


@system("RMQ-LIM-16")
def room_for_one_batch_less(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(large_batches, "WAITING_SIZE_MAX", large_batches.WAITING_SIZE_MAX - (4 << 20))
