"""`EntityCounter.java` as a pipeline of the harness: compiled, set up, started like workers, and
judged by its output.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.peers import launch
from tests.harness import node
from tests.harness.broker import Kafka
from tests.harness.node import JAVA_MAJOR, BrokerError, jars
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import Message
from tests.harness.workers import Pipeline, pipeline

POM = Path(__file__).with_name("pom.xml")
SOURCE = Path(__file__).with_name("EntityCounter.java")
INSTANCE = Path(__file__).with_name("Instance.java")
INSTALL = "apt-get install openjdk-17-jdk-headless maven"


class Verdict(NamedTuple):
    """How many counts are missing from the output, come again, or are out of their order."""

    lost: int
    repeated: int
    wrong: int


def missing_tools() -> list[str]:
    """What this machine lacks to compile and run it, in words; empty when nothing does."""
    return node.missing_tools() + ([] if shutil.which("javac") else ["a Java compiler (javac)"])


def compiled(folder: Path, source: Path = SOURCE) -> str:
    """Compile an application into `folder`; the classpath that it runs on."""
    libraries = f"{jars(POM)}/*"
    command = ["javac", "--release", str(JAVA_MAJOR), "-Xlint:all", "-Werror"]
    done = subprocess.run(
        [*command, "-cp", libraries, "-d", folder, source, INSTANCE],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    if done.returncode:
        raise BrokerError(f"{source.name} does not compile:\n{done.stdout}{done.stderr}")
    return f"{folder}:{libraries}"


@contextmanager
def streams_pipeline(
    kafka: Kafka,
    name: str,
    directory: Path,
    classpath: str,
    config: Mapping[str, str],
    **options: Any,
) -> Iterator[Pipeline]:
    """A pipeline whose workers are instances of the application, with its output topic.

    Args:
        kafka: where it runs.
        name: its application id, and with that its group.
        directory: of its instances.
        classpath: what `compiled` answered.
        config: properties of Kafka Streams over its defaults.
        options: of `Pipeline`.
    """
    settings = {
        launch.CLASSPATH: classpath,
        launch.MAIN: SOURCE.stem,
        "STREAMS_CONFIG": "".join(f"{key}={value}\n" for key, value in config.items()),
    }
    with pipeline(
        kafka, name, directory, settings=settings, launcher=launch.__name__, **options
    ) as site:
        kafka.create_topic(site.output_topic, site.partitions)
        yield site


def judge(sent: Iterable[Message], published: Iterable[Message]) -> Verdict:
    """Whether each event was counted once: an entity's counts are 1, 2, ... up to the number of its
    events.
    """
    events = Counter(message.key for message in sent)
    counts: defaultdict[bytes | None, list[int]] = defaultdict(list)
    for message in published:
        counts[message.key].append(struct.unpack(">q", message.value or b"")[0])
    lost = repeated = wrong = 0
    for entity in events.keys() | counts.keys():
        found, wanted = counts[entity], set(range(1, events[entity] + 1))
        lost += len(wanted - set(found))
        repeated += len(found) - len(set(found))
        wrong += len(set(found) - wanted) + (found != sorted(found))
    return Verdict(lost, repeated, wrong)
