"""Options that change while the name server runs: codes 318 and 319 (RocketMQ: common.Configuration)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from staticfire.system_under_test.configuration.config import NAME_SERVER_PROPERTIES
from staticfire.system_under_test.configuration.config import read_settings as read
from staticfire.system_under_test.configuration.config_file import rewrite_config_file
from staticfire.system_under_test.configuration.idle_options import (
    IDLE_NAME_SERVER_OPTIONS,
    format_idle,
)
from staticfire.system_under_test.configuration.java_properties import (
    check_request,
    parse_properties,
)
from staticfire.system_under_test.name_server.config import BLACK_LIST, NameServerConfig
from staticfire.system_under_test.runtime.env import Storage


class ForbiddenOption(ValueError):
    """A request tries to change an option in the black list."""


class LiveConfig:
    """The current options. Options that are read once at the start change with the next start.

    It refuses an invalid value, which RocketMQ silently accepts.
    """

    def __init__(self, config: NameServerConfig, storage: Storage) -> None:
        self.config = config
        self._storage = storage

    def text(self) -> str:
        """All options as lines of a `.properties` file; options without effect here come last."""
        return self._own_text() + format_idle(IDLE_NAME_SERVER_OPTIONS)

    def _own_text(self) -> str:
        return "".join(f"{name}={value}\n" for name, value in sorted(self._values().items()))

    def update(self, text: str) -> tuple[str, ...]:
        """Change options durably, all or none; return the names that changed. Ignores unknown names.

        Raises:
            ForbiddenOption: one of them may not be changed.
            ConfigError: a value is invalid.
            ValueError: the text is too long.
            OSError: the change cannot be saved.
        """
        check_request(text)
        wanted = parse_properties(text)
        forbidden = [name for name in wanted if name in (*BLACK_LIST, *self.config.black_list)]
        if forbidden:
            raise ForbiddenOption(f"Can not update config in black list: {', '.join(forbidden)}.")
        before, config = self._values(), self.config
        changed: dict[str, Any] = dict(read(text, NAME_SERVER_PROPERTIES).fields)
        try:
            self.config = replace(config, **changed)
            rewrite_config_file(
                self._storage, config.config_path, NAME_SERVER_PROPERTIES, self._own_text()
            )
        except OSError:
            self.config = config
            raise
        now = self._values()
        return tuple(name for name in now if now[name] != before[name])

    def _values(self) -> dict[str, str]:
        values = {field.name: getattr(self.config, field.name) for field in fields(self.config)}
        return {name: _written(values[p.field]) for name, p in NAME_SERVER_PROPERTIES.items()}


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ";".join(value) if isinstance(value, tuple) else str(value)
