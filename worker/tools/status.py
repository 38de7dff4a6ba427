"""The worker group at this moment: `status`.

The broker knows the members, what each was given and how far the group has come; each member tells,
through the broker, its web address, and there its readiness is asked for. So a group is described
from the broker alone where no worker can be reached.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

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
        name: its instance id, or where it is connected from if it does not answer.
        url: its web address as it can be asked; None where it tells none.
        ready: None where it does not answer.
        reason: why it is ready or not, or why it does not answer.
        partitions: of the input, that it was given.
        standbys: partitions whose state it keeps a copy of.
        lag: of its partitions together; None where one is not known.
        version: of the worker; None where it does not answer.
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
        partition: its number.
        worker: name of the one that was given it; None where nobody was.
        committed: where the group goes on; None where it has committed nothing.
        end: where the log ends for a committed reader.
        lag: records to go as its worker counts them, else offsets between `committed` and `end`,
            where transaction markers count.
    """

    partition: int
    worker: str | None
    committed: int | None
    end: int
    lag: int


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The group; `problems` is what is wrong with it, empty where nothing is known to be."""

    group: str
    state: str
    topic: str
    workers: list[MemberStatus]
    partitions: list[PartitionStatus]
    problems: list[str]


def group_status(settings: Settings) -> GroupStatus:
    """Ask the broker and all workers. Raises SetupError where there is no broker, or no
    input topic.
    """
    clients = KafkaClients(settings, SILENT)
    topic = settings.input_topic
    Topics(settings, clients).input_partitions  # noqa: B018 - raises where there is no broker or no topic
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
    """What is known of workers and partitions.

    Args:
        group: by the broker.
        pages: of each member its `/status`, or why there is none.
        offsets: by partition what is committed, and where the log begins and ends.
        topic: the input.
        changelog: its partitions that a member was given and does not process are its standbys.
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
    """The web address of a member; one that listens everywhere is asked where it is
    connected from.
    """
    if member.url is None:
        return None
    parts = urlsplit(member.url)
    if parts.hostname not in ALL_ADDRESSES:
        return member.url.rstrip("/")
    host = f"[{member.host}]" if ":" in member.host else member.host
    return urlunsplit(
        (
            parts.scheme,
            f"{host}:{parts.port}" if parts.port else host,
            parts.path.rstrip("/"),
            "",
            "",
        )
    )


def _pages(members: list[GroupMember]) -> list[PeerAnswer | str]:
    with ThreadPoolExecutor(min(PARALLEL, len(members) or 1)) as pool:
        return list(pool.map(_page, members))


def _page(member: GroupMember) -> PeerAnswer | str:
    """The worker's own page, or why there is none. A page of another worker, at the same address
    elsewhere, is none.
    """
    url = reachable_url(member)
    if url is None:
        return "its web address is unknown: it tells none, or not all brokers answer"
    try:
        answer = ask(url, "/status", timeout=PAGE_SECONDS)
        if answer.status == 404:  # of a version that has no such page
            answer = ask(url, "/readyz", timeout=PAGE_SECONDS)
    except PeerUnreachable as why:
        return f"no answer from here: {why}"
    if not isinstance(answer.fields.get("ready"), bool):
        return f"no answer from here: no worker speaks at {url}"
    if answer.fields.get("member_id") not in (None, member.member_id):
        return "no answer from here: another worker has this address here; set COVERSUMM_WEB_ADVERTISED_URL"
    return answer


def _body(page: PeerAnswer | str) -> dict[str, Any]:
    return {} if isinstance(page, str) else page.fields


def _name(member: GroupMember, page: PeerAnswer | str) -> str:
    """Its instance id where it answers, else its address; with the host where that says more."""
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
        yield f"nobody was given {'partition' if len(alone) == 1 else 'partitions'} {', '.join(alone)}"
    yield from (f"{one.name} is not ready: {one.reason}" for one in workers if one.ready is False)
