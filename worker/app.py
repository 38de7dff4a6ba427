"""For Faust's own command line: `faust -A worker.app worker --without-web`.

`app` is built when it is first asked for, because that reads the settings, asks the broker for the input topic's partition count
and locks the data directory.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(name)
    from worker.settings import Settings
    from worker.stream.topology import build_app

    app = build_app(Settings.from_environment())
    globals()["app"] = app
    return app
