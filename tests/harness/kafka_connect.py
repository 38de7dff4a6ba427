"""Kafka Connect as a process of its own, with the connectors of properties files."""

from __future__ import annotations

import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.harness.node import free_port, jars, java_options
from tests.harness.process import Process

POM: Final = Path(__file__).with_name("connect.pom.xml")
_HEAP_MIB: Final = 400


def plugins() -> Path:
    """The folder with Debezium's connectors, unpacked at the first call."""
    library = jars(POM)
    folder = library.with_name(f"{library.name}-plugins")
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            for archive in library.glob("*-plugin.tar.gz"):
                with tarfile.open(archive) as packed:
                    packed.extractall(f"{scratch}/plugins", filter="data")
            os.rename(f"{scratch}/plugins", folder)
    return folder


def properties(text: str) -> dict[str, str]:
    """The properties of a file; a backslash continues a line."""
    joined = text.replace("\\\n", "")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


class KafkaConnect(Process):
    """A standalone worker of Kafka Connect. The connectors' offsets are in Kafka."""

    def __init__(
        self, servers: str, directory: Path, connectors: Sequence[Mapping[str, str]]
    ) -> None:
        super().__init__(directory / "connect.log")
        self._files = [directory / "connect.properties"]
        _write(
            self._files[0],
            {
                "bootstrap.servers": servers,
                "listeners": f"http://127.0.0.1:{free_port()}",
                "plugin.path": str(plugins()),
                "offset.storage.file.filename": str(directory / "connect.offsets"),
                "offset.flush.interval.ms": "500",
                "connector.client.config.override.policy": "All",
                "consumer.session.timeout.ms": "6000",
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            },
        )
        for number, connector in enumerate(connectors):
            self._files.append(directory / f"connector-{number}.properties")
            _write(self._files[-1], connector)

    def start(self) -> None:
        """Start it, or start it again after its end."""
        command = ["java", f"-Xmx{_HEAP_MIB}m", "-XX:+UseSerialGC", *java_options]
        command += ["-cp", f"{jars(POM)}/*", "org.apache.kafka.connect.cli.ConnectStandalone"]
        self.launch([*command, *map(str, self._files)])


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
