"""The worker in a container: on a real Kafka, stopped, killed, started again, and on a volume that
is full.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.deploy.image.containers import (
    HARDENED,
    USER,
    Container,
    engine,
    extras,
    image,
    once,
    writable,
)
from tests.harness.broker import KafkaBroker
from tests.harness.eventually import eventually
from tests.harness.patience import PATIENCE_SECONDS
from tests.harness.topics import committed_offsets, read_topic
from tests.harness.workers import COMMAND, ROOT, Pipeline, clean_environment, pipeline
from worker.errors import Crash, SetupError
from worker.text.openvino import bf16_problem

pytestmark = pytest.mark.image
READY_SECONDS = 5.0


def busy() -> float:
    """How many times as long things take here as on a machine that nobody else uses."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@contextlib.contextmanager
def site(kafka: KafkaBroker, name: str, tmp_path: Path) -> Iterator[Pipeline]:
    """Topics of one's own, and the worker's settings, with the default engine."""
    with pipeline(kafka, name, tmp_path, settings={"COVERSUMM_EMBEDDER": "onnx"}) as made:
        yield made


def container(of: Pipeline, volume: Path, *options: str, **settings: str) -> Container:
    """A worker of the pipeline in a container, its data on a volume."""
    extra = {f"COVERSUMM_{name.upper()}": value for name, value in settings.items()}
    environment = {**of.environment, "COVERSUMM_INSTANCE_ID": "worker-0", **extra}
    return Container(environment, [f"--volume={volume}:/data", *options])


def send(of: Pipeline, file: Path) -> None:
    """The forty reviews, by the image's own command."""
    variables = [f"--env={name}={value}" for name, value in of.environment.items()]
    done = once(
        "send", "/reviews.jsonl", options=[*variables, f"--volume={file}:/reviews.jsonl:ro"]
    )
    assert done.returncode == 0, done.stdout + done.stderr


def published(of: Pipeline, topic: str = "") -> list[tuple[bytes | None, bytes | None]]:
    """Keys and bodies of a topic, partition by partition."""
    messages = read_topic(of.broker.bootstrap_servers, topic or of.output_topic)
    return [
        (message.key, message.value)
        for message in sorted(messages, key=lambda found: (found.partition, found.offset))
    ]


def caught_up(of: Pipeline, log: Callable[[], str], group: str = "") -> None:
    """Wait until the group, of the pipeline or of one beside it, has committed all that
    was sent.
    """
    targets = of.targets()
    assert targets

    def done() -> bool:
        committed = committed_offsets(of.broker.bootstrap_servers, of.input_topic, group or of.name)
        return all(committed[partition] >= target for partition, target in targets.items())

    eventually(done, lambda: f"behind\n{log()}", every_s=0.3)


def summarized(command: list[str], environment: Mapping[str, str]) -> bytes:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=clean_environment(environment),
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_summaries_are_the_same_bytes_as_outside(reviews: Path) -> None:
    inside = once("summarize", "/reviews.jsonl", options=[f"--volume={reviews}:/reviews.jsonl:ro"])
    assert inside.returncode == 0, inside.stderr
    assert inside.stdout.encode() == summarized([*COMMAND, "summarize", str(reviews)], {})
    assert inside.stdout.count("\n") > 20


@pytest.mark.skipif(
    "openvino" not in extras() or bf16_problem() is not None,
    reason="needs EXTRAS=openvino and a processor with bf16",
)
def test_a_variant_with_openvino_embeds_in_bf16(reviews: Path) -> None:
    precision = {"COVERSUMM_EMBEDDER_PRECISION": "bf16"}
    inside = once(
        "summarize",
        "/reviews.jsonl",
        options=[
            "--env=COVERSUMM_EMBEDDER_PRECISION=bf16",
            f"--volume={reviews}:/reviews.jsonl:ro",
        ],
    )
    assert inside.returncode == 0, inside.stderr
    assert "all-MiniLM-L6-v2-bf16@" in inside.stdout
    assert inside.stdout.encode() == summarized([*COMMAND, "summarize", str(reviews)], precision)


def test_the_page_says_how_to_run_it(reviews: Path) -> None:
    """The page's own line, with the engine that is here, and the limits that podman needs here."""
    page = (ROOT / "docs" / "image.md").read_text()
    (line,) = (
        block
        for block in re.findall(r"^```sh\n(.*?)^```", page, flags=re.M | re.S)
        if "docker run" in block
    )
    assert " ".join(HARDENED[:4]) in line
    limits = " ".join(option for option in HARDENED if "ulimit" in option)
    named = line.replace("docker run", f"{engine()} run {limits}").replace(
        "localhost/coversumm-worker:1.0.0", image()
    )
    done = subprocess.run(
        named,
        shell=True,
        cwd=reviews.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert all(len(json.loads(body)["sentences"]) == 5 for body in done.stdout.splitlines())
    assert done.stdout


def test_it_publishes_what_a_worker_outside_does_and_stops_in_order(
    kafka: KafkaBroker, reviews: Path, tmp_path: Path
) -> None:
    with site(kafka, "image-run", tmp_path) as made:
        with container(made, writable(tmp_path / "volume")) as running:
            running.wait_ready()
            send(made, reviews)
            caught_up(made, running.log)
            assert running.kill("TERM") == 0
        inside = published(made)
        outside = made.worker(
            app_id="image-outside",
            output_topic="image-outside.summaries",
            dlq_topic="image-outside.dlq",
        ).start()
        outside.wait_ready()
        caught_up(made, outside.log_text, "image-outside")
        assert outside.terminate() == 0
        assert inside == published(made, "image-outside.summaries")
        assert len(inside) > 20


@pytest.mark.parametrize("end", ["TERM", "KILL"])
def test_whoever_comes_back_to_the_volume_is_soon_ready_and_goes_on(
    end: str, kafka: KafkaBroker, reviews: Path, tmp_path: Path
) -> None:
    """A new container on the same volume, and the same one started again: after an orderly end, and
    after a kill.
    """
    with site(kafka, f"image-again-{end.lower()}", tmp_path) as made:
        volume, seconds = writable(tmp_path / "volume"), []
        for _ in range(2):
            with container(made, volume) as running:
                seconds.append(running.wait_ready())
                send(made, reviews)
                assert running.kill(end) == {"TERM": 0, "KILL": 137}[end]
                running.again()
                seconds.append(running.wait_ready())
                caught_up(made, running.log)
                assert running.kill(end) == {"TERM": 0, "KILL": 137}[end]
        report = made.report()
        assert report["ok"], report
    print(f"ready after {[round(s, 1) for s in seconds]} s; after each but the first by SIG{end}")
    assert min(seconds) < READY_SECONDS * busy()


def test_without_an_instance_id_a_new_container_is_ready_once_the_last_ones_session_is_over(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Each container has a host name of its own, and the default instance id is made of it: it is
    another member.
    """
    with site(kafka, "image-anonymous", tmp_path) as made:
        volume = writable(tmp_path / "volume")
        for name in ("first", "second"):
            with container(made, volume, f"--hostname={name}", instance_id="") as running:
                print(f"{name}: ready after {running.wait_ready():.1f} s")
                assert running.kill("TERM") == 0


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 KiB of the image's user."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size=300k,uid={USER},gid={USER}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_volume_ends_it_with_a_reason_and_room_makes_it_go_on(
    kafka: KafkaBroker, reviews: Path, small_volume: Path, tmp_path: Path
) -> None:
    with site(kafka, "image-full", tmp_path) as made, container(made, small_volume) as running:
        running.wait_ready()
        send(made, reviews)
        assert running.wait() == Crash.exit_code, running.log()
        assert "is full" in running.log().splitlines()[-1]
        running.again()  # a restart policy does so, in vain
        assert running.wait() in (Crash.exit_code, SetupError.exit_code), running.log()
        assert "full" in running.log().splitlines()[-1]
        subprocess.run(["mount", "-o", "remount,size=100m", str(small_volume)], check=True)
        running.again()
        running.wait_ready()
        caught_up(made, running.log)
        assert running.kill("TERM") == 0
        assert made.report()["ok"]
