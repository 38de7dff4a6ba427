"""`status`: the workers of the group.

The broker has the members, their assignments, their web addresses and the committed offsets. Each
worker answers for its readiness. So the group is described even if no worker can be reached.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from worker.kafka.clients import SILENT, KafkaClients
from worker.kafka.group import STABLE, UNKNOWN, GroupMember, WorkerGroup, read_group
from worker.kafka.reader import TopicReader
from worker.kafka.topics import Topics, changelog_topic
from worker.peers import PeerAnswer, PeerUnreachable, ask
from worker.settings import ALL_ADDRESSES, Settings

PAGE_SECONDS = 5.0
"""Seconds to wait for a worker's answer."""
PARALLEL = 16
"""Workers asked at the same time."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """A member of the group.

    Attributes:
        name: its instance id, or its address if it does not answer.
        url: its web address; None if it has none.
        ready: None if it does not answer.
        reason: of `ready`.
        partitions: its partitions of the input.
        standbys: partitions whose state it copies.
        lag: of its partitions together; None if one is unknown.
        version: None if it does not answer.
    """

    name: str
    url: str | None
    ready: bool | None
    reason: str
    partitions: list[int]
    standbys: list[int]
    lag: int | None
    version: str | None


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A partition of the input.

    Attributes:
        worker: name of its owner; None without one.
        committed: offset of the group; None without one.
        end: the last stable offset.
        lag: records as its worker counts them, else offsets between `committed` and `end`, with
            transaction markers.
    """

    partition: int
    worker: str | None
    committed: int | None
    end: int
    lag: int


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
    topic = settings.input_topic
    Topics(settings, clients).input_partitions  # noqa: B018 - raises SetupError
    group = read_group(clients.admin(), settings.app_id)
    with TopicReader(clients, topic, settings.app_id) as reader:
        bounds = {partition: reader.bounds(partition) for partition in reader.partitions}
        found = reader.committed(wait=False) if group.state != UNKNOWN else {}
    pages = _pages(group.members)
    committed = {partition: one.offset for partition, one in found.items()}
    offsets = {p: (committed.get(p), known.start, known.stop) for p, known in bounds.items()}
    workers, partitions = combined(group, pages, offsets, topic, changelog_topic(settings))
    problems = list(_problems(settings.app_id, group, workers, partitions))
    return GroupStatus(settings.app_id, group.state, topic, workers, partitions, problems)


def combined(
    group: WorkerGroup,
    pages: Iterable[PeerAnswer | str],
    offsets: dict[int, tuple[int | None, int, int]],
    topic: str,
    changelog: str,
) -> tuple[list[MemberStatus], list[PartitionStatus]]:
    """The status of workers and partitions.

    Args:
        group: as the broker describes it.
        pages: the `/status` of each member, or the reason for none.
        offsets: by partition the committed offset, and the bounds of the log.
        topic: the input.
        changelog: a member's partitions of it that it does not process are its standbys.
    """
    answers = list(zip(group.members, pages, strict=True))
    owners = {
        p: _name(member, page) for member, page in answers for p in member.assigned.get(topic, ())
    }
    counted = {
        int(p): lag
        for _, page in answers
        for p, lag in _body(page).get("lag", {}).items()
        if lag is not None
    }
    partitions = []
    for partition, (committed, start, end) in sorted(offsets.items()):
        lag = counted.get(partition, max(0, end - max(start, committed or 0)))
        partitions.append(PartitionStatus(partition, owners.get(partition), committed, end, lag))
    lags = {one.partition: one.lag for one in partitions}
    workers = []
    for member, page in answers:
        own = member.assigned.get(topic, [])
        workers.append(
            MemberStatus(
                name=_name(member, page),
                url=reachable_url(member),
                ready=_body(page).get("ready"),
                reason=page if isinstance(page, str) else page.error,
                partitions=own,
                standbys=[p for p in member.assigned.get(changelog, ()) if p not in own],
                lag=sum(lags[p] for p in own) if lags.keys() >= set(own) else None,
                version=_body(page).get("version"),
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


def _pages(members: list[GroupMember]) -> list[PeerAnswer | str]:
    with ThreadPoolExecutor(min(PARALLEL, len(members) or 1)) as pool:
        return list(pool.map(_page, members))


def _page(member: GroupMember) -> PeerAnswer | str:
    """The worker's `/status`, or the reason for none; another worker may have its address here."""
    url = reachable_url(member)
    if url is None:
        return "its web address is unknown: it has none, or not all brokers answer"
    try:
        answer = ask(url, "/status", timeout=PAGE_SECONDS)
        if answer.status == 404:  # an older version
            answer = ask(url, "/readyz", timeout=PAGE_SECONDS)
    except PeerUnreachable as why:
        return f"no answer from here: {why}"
    if not isinstance(answer.fields.get("ready"), bool):
        return f"no answer from here: no worker speaks at {url}"
    if answer.fields.get("member_id") not in (None, member.member_id):
        reason = "another worker has this address here; set COVERSUMM_WEB_ADVERTISED_URL"
        return f"no answer from here: {reason}"
    return answer


def _body(page: PeerAnswer | str) -> dict[str, Any]:
    return {} if isinstance(page, str) else page.fields


def _name(member: GroupMember, page: PeerAnswer | str) -> str:
    """The instance id, or the address if the worker does not answer."""
    if known := _body(page).get("instance_id"):
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
    elif alone := [str(one.partition) for one in partitions if one.worker is None]:
        unit = "partition" if len(alone) == 1 else "partitions"
        yield f"no worker owns {unit} {', '.join(alone)}"
    yield from (f"{one.name} is not ready: {one.reason}" for one in workers if one.ready is False)
