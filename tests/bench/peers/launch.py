"""Stands in for the worker's command (`Pipeline.launcher`), and becomes the process of a peer, in
Java or in a Python environment of its own: same id, same signals, same log.
"""

import os
from pathlib import Path

CLASSPATH, MAIN = "STREAMS_CLASSPATH", "STREAMS_MAIN"
"""Of an application in Java: where its classes are, and the one that starts."""
PYTHON, APP = "PEER_PYTHON", "PEER_APP"
"""The interpreter of a peer in Python, and its module."""
ENVIRONMENTS = Path(__file__).parents[3] / ".cache" / "peers"
"""The peers' Python environments, which `make bench-peers` makes of the pinned versions."""
IN_PYTHON = ("quix", "bytewax", "pathway")
LOG = {
    "showDateTime": "true",
    "dateTimeFormat": "HH:mm:ss.SSS",
    "defaultLogLevel": "warn",
    "log.org.apache.kafka.streams": "info",
}


def interpreter(name: str) -> Path:
    """Of a peer's environment."""
    return ENVIRONMENTS / name / "bin" / "python"


def is_installed(name: str) -> bool:
    """Whether a peer's environment was made completely."""
    return (ENVIRONMENTS / name / ".ready").exists()


def command() -> list[str]:
    """Of a peer in Python; else Java as it comes, with a heap that no contender needs more of."""
    if PYTHON in os.environ:
        return [os.environ[PYTHON], "-m", os.environ[APP]]
    properties = {f"org.slf4j.simpleLogger.{name}": value for name, value in LOG.items()}
    properties["java.io.tmpdir"] = str(Path(os.environ["COVERSUMM_DATA_DIR"]).parent)
    defined = (f"-D{name}={value}" for name, value in properties.items())
    return ["java", "-Xmx1g", *defined, "-cp", os.environ[CLASSPATH], os.environ[MAIN]]


if __name__ == "__main__":
    os.execvp(command()[0], command())
