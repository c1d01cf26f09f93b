"""Ids of producers: their parts, the turn of the month, clocks that step."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from staticfire.system_under_test.protocol.unique_id import UniqueIdGenerator, month_of

DAY_MS = 86_400_000


def ms(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) * 1000


def generator(ip: str = "172.17.0.1") -> UniqueIdGenerator:
    return UniqueIdGenerator(ip, 28445, 0x18B4AAC2)


def test_the_parts_of_the_published_id() -> None:
    ids = generator()
    ids.next(ms(2026, 11, 1))  # counter 0
    assert ids.next(ms(2026, 11, 1) + 0x6F1E2D3A) == "AC1100016F1D18B4AAC26F1E2D3A0001"


def test_an_ipv6_address_makes_a_longer_id() -> None:
    text = generator("2001:db8::1").next(ms(2026, 11, 1))
    assert text == "20010DB80000000000000000000000016F1D18B4AAC2000000000000"


def test_a_process_id_and_an_instance_beyond_their_fields_are_cut() -> None:
    text = UniqueIdGenerator("10.0.0.1", 0x12345, 0x123456789).next(ms(2026, 11, 1))
    assert text.startswith("0A000001234523456789")


def test_ids_of_one_millisecond_differ_until_the_counter_wraps() -> None:
    ids = generator()
    made = [ids.next(ms(2026, 11, 2)) for _ in range(0x10000)]
    assert len(dict.fromkeys(made)) == 0x10000
    assert ids.next(ms(2026, 11, 2)) == made[0]


def test_the_time_starts_again_with_the_month() -> None:
    ids = generator()
    assert ids.next(ms(2026, 11, 30))[20:28] == f"{29 * DAY_MS:08X}"
    assert ids.next(ms(2026, 12, 1) - 1)[20:28] == f"{30 * DAY_MS - 1:08X}"
    assert ids.next(ms(2026, 12, 1))[20:28] == "00000000"


def test_a_clock_set_back_a_little_over_the_turn_of_the_month_reads_as_zero() -> None:
    ids = generator()
    ids.next(ms(2026, 12, 1))
    assert ids.next(ms(2026, 12, 1) - 999_999)[20:28] == "00000000"


def test_a_clock_set_back_far_keeps_the_length_of_the_id() -> None:
    ids = generator()
    ids.next(ms(2026, 12, 1))
    text = ids.next(ms(2026, 1, 1))
    assert (len(text), text[:20]) == (32, "AC1100016F1D18B4AAC2")


@pytest.mark.parametrize(
    ("inside", "start", "end"),
    [
        (ms(2026, 2, 28), ms(2026, 2, 1), ms(2026, 3, 1)),
        (ms(2024, 2, 29), ms(2024, 2, 1), ms(2024, 3, 1)),
        (ms(2026, 12, 31), ms(2026, 12, 1), ms(2027, 1, 1)),
        (0, 0, 31 * DAY_MS),
    ],
)
def test_months(inside: int, start: int, end: int) -> None:
    assert month_of(inside) == (start, end)


def test_a_host_name_is_no_address() -> None:
    with pytest.raises(ValueError, match="node-1"):
        generator("node-1")
