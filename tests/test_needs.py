"""Tests that the machine cannot run are skipped with a reason, or fail where CI insists on them."""

from __future__ import annotations

import pytest

from tests.support import needs

pytest_plugins = ["pytester"]


def test_names_in_the_environment() -> None:
    assert needs.required("") == frozenset()
    assert needs.required("root, docker") == {"root", "docker"}
    with pytest.raises(
        ValueError,
        match="STATICFIRE_REQUIRE holds rot; allowed: root, docker, ssh, spark, chromium, node",
    ):
        needs.required("root,rot")


def test_who_is_not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert needs.lacks_root() == "needs root"


def test_commands_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(needs, "_works", lambda *argv: True)
    assert needs.lacks_root("sh") == ""
    assert needs.lacks_root("sh", "no-such-1", "no-such-2") == (
        "needs root and the commands no-such-1, no-such-2"
    )


def test_root_without_its_powers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(needs, "_works", lambda *argv: False)
    assert needs.lacks_root() == "needs root that may make namespaces"
    assert needs.lacks_docker() == "needs docker: no engine answers"


@pytest.mark.parametrize(("required", "outcome"), [("", "skipped"), ("root", "errors")])
def test_a_missing_command_skips_or_fails(
    required: str, outcome: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATICFIRE_REQUIRE", required)
    pytester.makeconftest("from tests.conftest import *  # noqa: F403")
    pytester.makepyfile("""
        import pytest

        @pytest.mark.needs_root("no-such-command")
        def test_it():
            pass
    """)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rs")
    result.assert_outcomes(**{outcome: 1})
    assert "needs root" in result.stdout.str()
