"""`--url`: which running worker a command asks."""

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.settings import Settings

F = TypeVar("F", bound="Callable[..., Any]")
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - recognised, not listened on


def url_option(command: F) -> F:
    """The `--url` option; click.UsageError for what is no URL."""
    return click.option(
        "--url",
        callback=_checked,
        help="Of any running worker; without it, the settings' web address on this machine.",
    )(command)


def local_url(settings: "Settings") -> str:
    """Of the worker on this machine that has these settings."""
    host = settings.web_bind if settings.web_bind not in EVERYWHERE else "127.0.0.1"
    return f"http://{host}:{settings.web_port}"


def _checked(_context: click.Context, _option: click.Parameter, url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {url!r} is not a URL like http://127.0.0.1:8080.")
    return url
