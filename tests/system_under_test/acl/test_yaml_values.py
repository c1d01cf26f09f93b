"""Scalars of YAML: what RocketMQ 4.9.8 makes of them, recorded from its AclUtils."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.acl.yaml_values import load_yaml, text_of, truth_of


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("12345678", "12345678"),
        ('"12345678"', "12345678"),
        ("012345678", "012345678"),  # no octal number: it has an 8
        ("012345670", "2739128"),
        ("0x1234abcd", "305441741"),
        ("1_234_567", "1234567"),
        ("12:34:56", "45296"),
        ("+12345678", "12345678"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1234567.5", "1234567.5"),
        ("12345678.5", "12345678.5"),
        ("12345e67", "1.2345E+71"),
        ("100000000.0", "1.0E+8"),
        ("0.00012345", "0.00012345"),
        ("1e-7", "1.0E-7"),
        ("1234e5678", None),  # beyond what a double holds
        ("true", "true"),
        ("no", "false"),
        ("2001-12-14", "1008288000000"),
        ("2001-12-14T01:00:00+01:00", "1008288000000"),
        ("~", None),
        ("[1]", None),
    ],
)
def test_text(written: str, text: str | None) -> None:
    document = load_yaml(f"key: {written}")
    assert isinstance(document, dict)
    assert text_of(document["key"]) == text


@pytest.mark.parametrize(
    ("written", "truth"),
    [
        *((word, True) for word in ("true", "yes", "on", "1", "1.5", '"1"', '"TRUE"', '"Y"')),
        *((word, False) for word in ("false", "no", "0", "2", "~", '""', '"false"', '"N"')),
        *((word, None) for word in ("maybe", "t", "[true]", "2001-12-14")),
    ],
)
def test_truth(written: str, truth: bool | None) -> None:
    document = load_yaml(f"key: {written}")
    assert isinstance(document, dict)
    assert truth_of(document["key"]) is truth


def test_no_yaml() -> None:
    with pytest.raises(ValueError, match="no YAML"):
        load_yaml("- {")
