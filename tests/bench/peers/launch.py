"""Stands in for the worker's command (`Pipeline.launcher`), and becomes the Java process: same id,
same signals, same log.
"""

import os
from pathlib import Path

CLASSPATH = "STREAMS_CLASSPATH"
LOG = {"showDateTime": "true", "defaultLogLevel": "warn", "log.org.apache.kafka.streams": "warn"}


def command() -> list[str]:
    """Java as it comes, with a heap that no contender needs more of."""
    properties = {f"org.slf4j.simpleLogger.{name}": value for name, value in LOG.items()}
    properties["java.io.tmpdir"] = str(Path(os.environ["COVERSUMM_DATA_DIR"]).parent)
    defined = (f"-D{name}={value}" for name, value in properties.items())
    return ["java", "-Xmx1g", *defined, "-cp", os.environ[CLASSPATH], "EntityReviews"]


if __name__ == "__main__":
    os.execvp("java", command())
