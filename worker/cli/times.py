"""Times on the command line."""

from datetime import UTC, datetime

import click


class TimeType(click.ParamType):
    """A date or a time as in RFC 3339, in UTC where it names no offset; milliseconds since 1970."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """See `click.ParamType`."""
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time like 2026-11-20T12:00:00Z or 2026-11-20.", param, ctx)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
