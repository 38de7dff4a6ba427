"""Stands in for the worker's command (`Pipeline.launcher`), and becomes the Java process: same id,
same signals, same log.
"""

import os
from pathlib import Path

CLASSPATH = "STREAMS_CLASSPATH"
LOG = {
    "showDateTime": "true",
    "dateTimeFormat": "HH:mm:ss.SSS",
    "defaultLogLevel": "warn",
    "log.org.apache.kafka.streams": "info",
}


def command() -> list[str]:
    """Java with the application, by the environment of a worker."""
    properties = {f"org.slf4j.simpleLogger.{name}": value for name, value in LOG.items()}
    # A killed JVM leaves its unpacked libraries behind.
    properties["java.io.tmpdir"] = str(Path(os.environ["COVERSUMM_DATA_DIR"]).parent)
    defined = (f"-D{name}={value}" for name, value in properties.items())
    return [
        "java",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        *defined,
        "-cp",
        os.environ[CLASSPATH],
        "EntityCounter",
    ]


if __name__ == "__main__":
    os.execvp("java", command())
