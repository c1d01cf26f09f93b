"""Host options given by the user."""

from __future__ import annotations

import pytest

from staticfire.harness.machines.options import MachineOptionError, SshHost, check_hosts

A, B, C = (SshHost(name=name) for name in "abc")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("a", A),
        ("me@a", SshHost(name="a", user="me")),
        ("root@a:2222", SshHost(name="a", port=2222)),
        ("me@a:2222", SshHost(name="a", user="me", port=2222)),
    ],
)
def test_a_host_may_leave_out_user_and_port(text: str, host: SshHost) -> None:
    assert SshHost.parse(text) == host
    assert SshHost.parse(str(host)) == host


@pytest.mark.parametrize("text", ["", "a:0", "a:65536", "a b", "@a", "a:", "a:ssh", "a@b@c"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(MachineOptionError, match="allowed: user@host:port"):
        SshHost.parse(text)


def test_each_server_has_a_host_of_its_own_and_clients_have_one() -> None:
    check_hosts([A, B, C], 2)
    with pytest.raises(MachineOptionError, match="names 2 hosts; this campaign needs 3 or more"):
        check_hosts([A, B], 2)
    with pytest.raises(MachineOptionError, match="names root@b:22 twice"):
        check_hosts([A, B, C, B], 2)
