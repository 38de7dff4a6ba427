"""A real PostgreSQL for the tests: a cluster of its own in a temporary folder.

`initdb` refuses root, so root starts it as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tests.harness.node import free_port
from tests.harness.process import Process

if TYPE_CHECKING:
    import psycopg

INSTALL: Final = "apt-get install postgresql"
_USERS: Final = ("postgres", "nobody")
_SETTINGS: Final = (
    "fsync=off",
    "synchronous_commit=off",
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "wal_level=logical",
)


def program(name: str) -> str | None:
    """The path of PostgreSQL's program; None where there is none. Debian's are not on the PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *map(str, folders)]))


class Postgres:
    """A running server with the database `postgres`; a context manager."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self.port = free_port()
        self._process = Process(self._folder / "log")

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which libpq reaches it."""
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
        }

    def __enter__(self) -> Self:
        data = self._folder / "data"
        if os.getuid() == 0:
            os.chown(self._folder, *self._user())
        tool = ["initdb", "--pgdata", str(data), "--username=postgres", "--auth=trust"]
        self._start([*tool, "--encoding=UTF8", "--locale=C", "--no-sync"])
        assert self._process.wait() == 0, self._process.log_end()
        options = [word for setting in _SETTINGS for word in ("-c", setting)]
        self._start(["postgres", "-D", str(data), "-p", str(self.port), *options])
        self._process.wait_until(self._serves)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.signal(signal.SIGINT)  # SIGTERM waits for clients
        self._process.wait()
        shutil.rmtree(self._folder)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection on which each statement is a transaction."""
        import psycopg

        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
        arguments = {name: self.environment[variable] for name, variable in names.items()}
        return psycopg.connect(**arguments, autocommit=True)

    def _serves(self) -> bool:
        asked = subprocess.run(
            [program("pg_isready") or "", "-h", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
        )
        return asked.returncode == 0

    def _start(self, command: list[str]) -> None:
        path = program(command[0])
        assert path is not None
        owner: dict[str, Any] = {}
        if os.getuid() == 0:
            user, group = self._user()
            owner = {"user": user, "group": group, "extra_groups": []}
        self._process.launch([path, *command[1:]], cwd=self._folder, **owner)

    @staticmethod
    def _user() -> tuple[int, int]:
        """Ids of a user and its group, other than root's."""
        known = {user.pw_name: user for user in pwd.getpwall()}
        found = next(known[name] for name in _USERS if name in known)
        return found.pw_uid, found.pw_gid
