"""`embed`: the vectors of all texts in files of reviews, made by any number of processes.

They share a folder beside the output. One of them, the leader, reads the reviews and lists their
distinct texts in pieces, in the order of reading. Each process embeds pieces that no other one has
claimed. When all are embedded, a leader writes the output and removes the folder.

The folder has:
    plan.json         what the work is about; a process with another plan ends
    00000012.texts    a piece that is to be embedded, a JSON array; claimed with a lock
    00000012.vectors  an embedded piece, a file of vectors
    listed.json       counts, when all texts are listed
    leader            claimed by the leader

Every file appears complete or not at all, so a killed process loses at most a piece. The pieces
depend only on the files of reviews, so the output has the same bytes however often it was resumed.
Nothing depends on the locks but the time: without them processes would do the same work twice.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from worker.coversumm import quantize_rows
from worker.errors import SetupError
from worker.events import Limits, Record, Rejected, ReviewUpserted, decode
from worker.processing.plan import split_review
from worker.sources import Entry, Faulty
from worker.sources.vector_file import TextVectors, VectorFile, write_vectors
from worker.storage.shared_files import claim, replacing
from worker.text.engine import EmbeddingEngine
from worker.text.identity import EngineIdentity
from worker.text.splitting import SPLITTER

PIECE: Final = 2048
"""Texts that are claimed, embedded and kept together: eight seconds of a core."""
GROUP: Final = 32
"""Pieces in a group of rows of the output."""
PLAN, LISTED, LEADER = "plan.json", "listed.json", "leader"
TEXTS, VECTORS = ".texts", ".vectors"


@dataclass(slots=True)
class Listed:
    """Counts of the listed reviews: `texts` are distinct ones among `sentences`; `unusable` lines
    are no events that a worker accepts.
    """

    lines: int = 0
    reviews: int = 0
    unusable: int = 0
    sentences: int = 0
    texts: int = 0


class SeenTexts:
    """The texts seen so far, 8 bytes each: sorted runs of digests, of ascending length.

    Two of 100 million texts have one digest in one of 3,700 cases; then one is not listed, and the
    worker embeds it.
    """

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def new(self, texts: Iterable[str]) -> list[str]:
        """The texts that were not seen before, each once, in order."""
        distinct = list(dict.fromkeys(texts))
        data = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in distinct)
        digests = np.frombuffer(data, np.uint64)
        is_new = np.ones(len(digests), bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, digests), len(run) - 1)
            is_new &= run[at] != digests
        self._add(np.sort(digests[is_new]))
        return [text for text, new in zip(distinct, is_new.tolist(), strict=True) if new]

    def _add(self, run: NDArray[np.uint64]) -> None:
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)


def _folder(output: Path) -> Path:
    return output.with_name(f"{output.name}.parts")


def is_own(path: Path, output: Path) -> bool:
    """Whether a file is the output, or one of the work for it: found in a folder of reviews."""
    folder = _folder(output).resolve()
    return path.resolve() == output.resolve() or path.resolve().is_relative_to(folder)


def plan_of(
    identity: EngineIdentity, limits: Limits, paths: Sequence[str], fields: Mapping[str, str]
) -> dict[str, Any]:
    """What the output depends on. Raises SetupError for a file that is gone."""
    try:
        files = [[path, Path(path).stat().st_size] for path in paths]
    except OSError as cause:
        raise SetupError(f"{cause.filename} cannot be read ({cause.strerror})") from cause
    return {
        "engine": identity._asdict(),
        "splitter": SPLITTER,
        "limits": {name: value for name, value in asdict(limits).items() if name != "label_bits"},
        "files": files,
        "fields": dict(fields),
    }


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first difference of two plans, for people; None if they are equal."""
    if found := EngineIdentity(**now["engine"]).difference(before.get("engine", {})):
        return f"another engine: {found[1]}"
    for part, value in now.items():
        if before.get(part) != value:
            return f"other {part}"
    return None


class SharedEmbedding:
    """One process's part of the work for an output."""

    def __init__(self, output: Path, plan: dict[str, Any], engine: EmbeddingEngine) -> None:
        self.folder = _folder(output)
        self.made = 0  # vectors of this process
        self._output = output
        self._plan: dict[str, Any] = json.loads(json.dumps(plan))
        self._engine = engine
        self._first = 0  # all pieces before this one are embedded
        self._is_checked = False  # the folder's plan is this one

    def finished(self) -> Listed | None:
        """The counts, if the output is there. Raises SetupError if it is of another plan."""
        if not self._output.exists():
            return None
        self._remove()  # of a leader that was killed
        with VectorFile(self._output) as file:
            self._check(file.about.get("plan", {}), f"delete {self._output}, or name another one")
            return Listed(**file.about["listed"])

    @contextmanager
    def leading(self) -> Iterator[bool]:
        """Whether this process is the leader until the block ends. Raises SetupError for a folder
        that cannot be written, or belongs to another plan.
        """
        if not self._output.parent.exists():
            raise SetupError(f"--output: the folder {self._output.parent} does not exist")
        try:
            self.folder.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # another leader has ended and removes the folder
                (self.folder / LEADER).touch()
        except OSError as cause:
            raise _unwritable(self.folder, cause) from cause
        with claim(self.folder / LEADER) as is_free:
            leads = is_free and not self._output.exists()
            plan = self._read(PLAN)
            if plan is None and leads:
                plan = self._plan
                self._write(PLAN, json.dumps(plan).encode())
            if plan is not None:
                self._check(plan, f"delete {self.folder} to start over")
                self._is_checked = True
            yield leads

    def listed(self) -> Listed | None:
        """The counts, if all texts are listed."""
        found = self._read(LISTED)
        return None if found is None else Listed(**found)

    def list_texts(
        self,
        entries: Iterable[Entry | None],
        limits: Limits,
        on_entry: Callable[[Listed], None],
        on_fault: Callable[[Faulty], None],
    ) -> None:
        """List all texts; the leader's work. Raises SetupError."""
        counts = Listed()
        found = pieces(sentences(entries, limits, counts, on_entry, on_fault))
        for number, texts in enumerate(found):
            counts.texts += len(texts)
            if not self._is_listed(number):
                self._write(self._path(number, TEXTS).name, msgspec.json.encode(texts))
        self._write(LISTED, json.dumps(asdict(counts)).encode())

    def embed(self) -> Iterator[None]:
        """Embed the pieces that are listed and free; yields after each."""
        number = self._first
        while self._is_checked and self._is_listed(number):
            if self._embed_piece(number):
                yield
            number += 1
            if self._path(self._first, VECTORS).exists():
                self._first += 1

    def done(self) -> int:
        """Texts that all processes have embedded."""
        names = (path.name for path in self.folder.glob(f"*{VECTORS}"))
        listed = self.listed()
        last = -1 if listed is None else listed.texts // PIECE
        rest = 0 if listed is None else listed.texts % PIECE
        return sum(rest if int(name.partition(".")[0]) == last else PIECE for name in names)

    def assemble(self, listed: Listed) -> None:
        """Write the output of all pieces; the leader's last work. Raises SetupError."""
        about = {"plan": self._plan, "listed": asdict(listed)}
        numbers = iter(range(-(-listed.texts // PIECE)))
        groups = iter(lambda: list(islice(numbers, GROUP)), [])
        blocks = map(self._merged, groups)
        try:
            write_vectors(self._output, about, self._engine.dimension, blocks, self.folder)
        except OSError as cause:
            raise _unwritable(self._output, cause) from cause
        self._remove()

    def _embed_piece(self, number: int) -> bool:
        """Whether this process embedded it."""
        path, target = self._path(number, TEXTS), self._path(number, VECTORS)
        with claim(path) as is_mine:
            if not is_mine or target.exists():
                return False
            texts: list[str] = msgspec.json.decode(path.read_bytes())
            vectors, invalid = quantize_rows(self._engine.embed(texts))
            # The worker rejects the events of texts without a usable vector.
            usable = [text for text, bad in zip(texts, invalid.tolist(), strict=True) if not bad]
            block = TextVectors(usable, vectors[~invalid])
            try:
                write_vectors(target, {}, self._engine.dimension, [block], self.folder)
            except OSError as cause:
                raise _unwritable(target, cause) from cause
            path.unlink(missing_ok=True)
            self.made += len(texts)
        return True

    def _merged(self, numbers: list[int]) -> TextVectors:
        texts: list[str] = []
        vectors = [np.empty((0, self._engine.dimension), np.int16)]
        for number in numbers:
            with VectorFile(self._path(number, VECTORS)) as file:
                for block in file.blocks():
                    texts += block.texts
                    vectors.append(block.vectors)
        return TextVectors(texts, np.concatenate(vectors))

    def _check(self, plan: Mapping[str, Any], advice: str) -> None:
        if found := difference(plan, self._plan):
            raise SetupError(f"{self._output} was begun with {found}; {advice}")

    def _is_listed(self, number: int) -> bool:
        return self._path(number, VECTORS).exists() or self._path(number, TEXTS).exists()

    def _path(self, number: int, ending: str) -> Path:
        return self.folder / f"{number:08}{ending}"

    def _read(self, name: str) -> Any:
        with suppress(FileNotFoundError):
            return json.loads((self.folder / name).read_bytes())
        return None

    def _write(self, name: str, data: bytes) -> None:
        try:
            with replacing(self.folder / name, self.folder) as stream:
                stream.write(data)
        except OSError as cause:
            raise _unwritable(self.folder / name, cause) from cause

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def sentences(
    entries: Iterable[Entry | None],
    limits: Limits,
    counts: Listed,
    on_entry: Callable[[Listed], None],
    on_fault: Callable[[Faulty], None],
) -> Iterator[str]:
    """The sentences that a worker with these limits embeds for these lines."""
    for entry in entries:
        if entry is None:
            continue
        counts.lines += 1
        found = _of_line(entry, limits)
        if isinstance(found, Faulty):
            counts.unusable += 1
            on_fault(found)
        elif found is not None:
            counts.reviews += 1
            counts.sentences += len(found)
            yield from found
        on_entry(counts)


def _of_line(entry: Entry, limits: Limits) -> list[str] | Faulty | None:
    """None: an event without text, such as a deletion."""
    if isinstance(entry, Faulty):
        return entry
    assert isinstance(entry, Record)
    (event,) = decode([entry], limits)
    if isinstance(event, ReviewUpserted):
        split = split_review(event.review_id.encode(), event, limits)
        if not isinstance(split, Rejected):
            return [one.text for one in split[0] if one.vector is None]
        event = split
    if isinstance(event, Rejected):
        return Faulty(entry.offset + 1, event.reason, event.detail)
    return None


def pieces(texts: Iterable[str]) -> Iterator[list[str]]:
    """The distinct texts in lists of PIECE, the last one shorter."""
    seen, waiting, remaining = SeenTexts(), [], iter(texts)
    while block := list(islice(remaining, 8 * PIECE)):
        waiting += seen.new(block)
        while len(waiting) >= PIECE:
            yield waiting[:PIECE]
            del waiting[:PIECE]
    if waiting:
        yield waiting


def _unwritable(path: Path, cause: OSError) -> SetupError:
    return SetupError(f"{path} cannot be written ({cause.strerror}): make room, or name another")
