"""The workers of a group.

The broker has the members, their assignments, their web addresses and the committed offsets. Each
worker answers for its readiness. So the group is described even if no worker can be reached.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from worker.kafka.clients import SILENT, Clients, KafkaClients
from worker.kafka.errors import broker_errors
from worker.kafka.group import STABLE, GroupMember, WorkerGroup, read_group
from worker.kafka.offsets import TIMEOUT_SECONDS, all_watermarks, committed_offsets
from worker.kafka.topics import Topics, changelog_topic
from worker.settings import ALL_ADDRESSES, Settings
from worker.web.peers import PeerUnreachable, ask

PAGE_SECONDS = 5.0  # seconds to wait for a worker's answer
PARALLEL = 16  # workers asked at the same time


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member of the group."""

    name: str  # its instance id, or its address if it does not answer
    url: str | None  # its web address; None if it has none
    ready: bool | None  # None if it does not answer
    reason: str  # of `ready`
    partitions: list[int]  # its partitions of the input
    standbys: list[int]  # partitions whose state it copies
    lag: int | None  # of its partitions together; None if one is unknown
    version: str | None  # None if it does not answer


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of the input."""

    partition: int
    worker: str | None  # name of its owner; None without one
    committed: int | None  # offset of the group; None without one
    end: int  # the last stable offset, read just after `committed`
    lag: int
    """Offsets between them. Transaction markers at the end do not count where the worker
    reports that it has passed them.
    """


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The group, with its known problems."""

    group: str
    state: str
    topic: str
    workers: list[MemberStatus]
    partitions: list[PartitionStatus]
    problems: list[str]


def group_status(settings: Settings) -> GroupStatus:
    """Ask the broker and all workers. Raises SetupError without a broker or an input topic."""
    clients = KafkaClients(settings, SILENT)
    name, topic = settings.app_id, settings.input_topic
    partition_count = Topics(settings, clients).input_partitions
    group = read_group(clients.admin(), name)
    with ThreadPoolExecutor(min(PARALLEL, len(group.members) or 1)) as pool:
        pages = list(pool.map(_page, group.members))
    offsets = read_offsets(clients, name, topic, range(partition_count))
    workers, partitions = combined(group, pages, offsets, topic, changelog_topic(settings))
    problems = list(_problems(name, group, workers, partitions))
    return GroupStatus(name, group.state, topic, workers, partitions, problems)


class Offsets(NamedTuple):
    """A partition's offsets of one moment: the committed one (None without one), and the log."""

    committed: int | None
    log: range


def read_offsets(clients: Clients, group: str, topic: str, partitions: range) -> dict[int, Offsets]:
    """The offsets by partition. Raises SetupError if the broker does not answer."""
    with (
        broker_errors(f"could not fetch the offsets of {topic}"),
        # an uncommitted reader does not wait for a transaction in flight
        closing(clients.standalone_consumer(group, "read_uncommitted")) as any_reader,
        closing(clients.standalone_consumer(group, "read_committed")) as reader,
    ):
        committed = committed_offsets(any_reader, topic, partitions)
        logs = all_watermarks(reader, topic, partitions, TIMEOUT_SECONDS)
    return {p: Offsets(committed[p].offset if p in committed else None, logs[p]) for p in logs}


Page = Mapping[str, Any]  # `/status` of a worker; without an answer only the `reason`


def combined(
    group: WorkerGroup,
    pages: Sequence[Page],
    offsets: Mapping[int, Offsets],
    topic: str,
    changelog: str,
) -> tuple[list[MemberStatus], list[PartitionStatus]]:
    """The status of workers and partitions; `pages` are those of the members, in their order.

    A member's partitions of the changelog that it does not process are its standbys.
    """
    owners: dict[int, str] = {}
    passed: dict[int, list[int]] = {}
    for member, page in zip(group.members, pages, strict=True):
        owners |= dict.fromkeys(member.assigned.get(topic, ()), _name(member, page))
        passed |= {int(p): both for p, both in page.get("passed", {}).items()}
    partitions = []
    for partition, (committed, log) in sorted(offsets.items()):
        position = max(log.start, committed or 0)
        applied, beyond = passed.get(partition, (position, position))
        lag = max(0, log.stop - (beyond if applied == position else position))
        owner = owners.get(partition)
        partitions.append(PartitionStatus(partition, owner, committed, log.stop, lag))
    lags = {status.partition: status.lag for status in partitions}
    workers = []
    for member, page in zip(group.members, pages, strict=True):
        own = member.assigned.get(topic, [])
        workers.append(
            MemberStatus(
                name=_name(member, page),
                url=reachable_url(member),
                ready=page.get("ready"),
                reason=page["reason"],
                partitions=own,
                standbys=[p for p in member.assigned.get(changelog, ()) if p not in own],
                lag=sum(lags[p] for p in own) if lags.keys() >= set(own) else None,
                version=page.get("version"),
            )
        )
    return workers, partitions


def reachable_url(member: GroupMember) -> str | None:
    """The web address of a member, with its client host if it listens on all addresses."""
    if member.url is None:
        return None
    parts = urlsplit(member.url)
    if parts.hostname not in ALL_ADDRESSES:
        return member.url.rstrip("/")
    host = f"[{member.host}]" if ":" in member.host else member.host
    address = f"{host}:{parts.port}" if parts.port else host
    return f"{parts.scheme}://{address}{parts.path.rstrip('/')}"


def _page(member: GroupMember) -> Page:
    """The page of a member; another worker may have its address here."""
    url = reachable_url(member)
    if url is None:
        return {"reason": "its web address is unknown: it has none, or not all brokers answer"}
    try:
        answer = ask(url, "/status", timeout=PAGE_SECONDS)
    except PeerUnreachable as why:
        return {"reason": f"no answer from here: {why}"}
    page = answer.fields
    if not isinstance(page.get("ready"), bool):
        return {"reason": f"no answer from here: no worker speaks at {url}"}
    if page.get("member_id") not in (None, member.member_id):
        other = "another worker has this address here; set COVERSUMM_WEB_ADVERTISED_URL"
        return {"reason": f"no answer from here: {other}"}
    return {**page, "reason": answer.error}


def _name(member: GroupMember, page: Page) -> str:
    """The instance id, or the address if the worker does not answer."""
    if known := page.get("instance_id"):
        return str(known)
    if (url := reachable_url(member)) is None:
        return f"{member.member_id} on {member.host}"
    where = urlsplit(url)
    return where.netloc if where.hostname == member.host else f"{where.netloc} on {member.host}"


def _problems(
    name: str, group: WorkerGroup, workers: list[MemberStatus], partitions: list[PartitionStatus]
) -> Iterator[str]:
    if not workers:
        yield f"no worker runs in the group {name}"
        return
    if group.state != STABLE:
        yield f"the group {name} is not settled: {group.state}"
    elif alone := [str(status.partition) for status in partitions if status.worker is None]:
        unit = "partition" if len(alone) == 1 else "partitions"
        yield f"no worker owns {unit} {', '.join(alone)}"
    if all(worker.ready is None for worker in workers):
        yield "no worker answers from here, so they may be down: " + workers[0].reason
    yield from (
        f"{worker.name} is not ready: {worker.reason}"
        for worker in workers
        if worker.ready is False
    )
