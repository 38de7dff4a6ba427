"""`serve`: reviews of files on the live page of a worker on an embedded broker, until Ctrl-C.

When the file of facets changes, another worker begins again there, with the vectors of the first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Final, NoReturn

import msgspec

from worker.demo.embedded import EmbeddedWorker
from worker.errors import SetupError, many
from worker.events import Record
from worker.facets.definitions import PRESET, read_definitions
from worker.operations.findings import Findings, warn_left_out
from worker.operations.languages import Languages
from worker.processing.config import event_limits
from worker.settings import Settings
from worker.sources import ReviewFiles, judged
from worker.view import output
from worker.view.texts import ending_signals

AHEAD: Final = 1000  # events sent ahead of the worker
AHEAD_BYTES: Final = 2 * 2**20
"""Bytes of them: the embedded broker keeps 5 MiB of a partition, and drops what is older."""
POLL_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 0.5  # between two looks at the file of facets
# The settings of sets, of embedding and of the page; broker and state are the command's own.
KEPT: Final = (
    *("facets", "language_min", "k", "distinct", "weigh", "index", "native", "dimension"),
    *("embedder", "embedder_precision", "embedder_threads", "model_file", "model_cache_dir"),
    *("vector_store_dir", "vector_store_bytes", "max_event_bytes", "max_text_bytes"),
    *("max_sentence_chars", "max_sentences_per_review", "max_sentences_per_entity"),
    *("max_message_bytes", "web_port", "web_origins", "review_url"),
)


@dataclass(frozen=True)
class ReviewSource:
    """The usable events of files, in order; can be read again."""

    paths: Sequence[str]
    fields: Mapping[str, str]
    stdin: str  # where a copy of standard input is
    settings: Settings

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values. Raises SetupError for a file that cannot be read."""
        with ReviewFiles(self.paths, self.fields, stdin=self.stdin) as reviews:
            for entry in judged(reviews, event_limits(self.settings)):
                if isinstance(entry, Record):
                    yield entry.key or b"", entry.value or b""

    def survey(self) -> int:
        """The bytes of all values; notes lines that cannot be used. Raises SetupError."""
        with ReviewFiles(self.paths, self.fields, stdin=self.stdin) as reviews:
            findings = Findings(reviews)
            entries = judged(reviews, event_limits(self.settings))
            used = findings.usable(entries, f"{reviews.unit} checked")
            size = sum(len(record.value or b"") for record in used)
            warn_left_out(reviews)
            findings.complain()
        if not size:
            raise SetupError(f"no reviews in {', '.join(self.paths)}")
        return size


class FacetsFile:
    """The facets of a setting, whose file is read again when it changes."""

    def __init__(self, setting: str) -> None:
        """Raises SetupError for definitions that are wrong."""
        is_file = setting and not setting.startswith(PRESET)
        self.path = Path(setting).expanduser() if is_file else None
        self._text = self._latest = self._read()
        self._identity = read_definitions(setting).identity if setting else ""
        self._look_at = 0.0

    def has_changed(self) -> bool:
        """True once for each change, at the second equal look; complains about wrong facets."""
        before = self._identity
        if time.monotonic() < self._look_at:
            return False
        self._look_at = time.monotonic() + LOOK_SECONDS
        last, self._latest = self._latest, self._read()
        if self._latest not in (None, self._text) and self._latest == last:
            self._text = self._latest
            try:
                self._identity = read_definitions(str(self.path)).identity
            except SetupError as error:
                output.complain(f"{error}; the page keeps the facets that it has")
        return self._identity != before

    def _read(self) -> bytes | None:
        """None without a file, and while an editor replaces it."""
        with suppress(OSError):
            return None if self.path is None else self.path.read_bytes()
        return None


def serve(source: ReviewSource, settings: Settings) -> None:
    """Serve the reviews until Ctrl-C, SIGTERM or SIGHUP. Raises SetupError and Crash."""
    kept = Settings(**{name: getattr(settings, name) for name in KEPT})
    kept = replace(kept, emit="coalesced", batch_ms=500)  # the page fills steadily
    with ending_signals():
        try:
            with TemporaryDirectory("", "coversumm-serve-", ignore_cleanup_errors=True) as folder:
                Serving(Path(folder), source, kept).run()
        except KeyboardInterrupt:
            output.note("ended; everything is removed again")


class Serving:
    """The page from its first worker to its last."""

    def __init__(self, directory: Path, source: ReviewSource, settings: Settings) -> None:
        store = settings.vector_store_dir or directory / "vectors"
        self._directory, self._source = directory, source
        self._settings = replace(settings, vector_store_dir=store)
        self._facets = FacetsFile(settings.facets)
        output.note("the worker is starting: it loads its model")
        self._url = ""
        self._languages: Languages | None = None  # of the reviews, with facets
        self._bytes = self._embedded = 0  # of the source: all, and those embedded so far

    def run(self) -> NoReturn:
        """Begin again after each change of facets."""
        while True:
            try:
                with EmbeddedWorker(self._directory, self._settings) as worker:
                    self._serve(worker)
            except SetupError as error:
                if not self._url:
                    raise
                output.complain(f"{error}; the page is back when {self._facets.path} is right")
                while not self._facets.has_changed():
                    time.sleep(POLL_SECONDS)
            output.note(f"{self._facets.path} has changed: the page begins again")
            rmtree(self._directory / "state", ignore_errors=True)

    def _serve(self, worker: EmbeddedWorker) -> None:
        """Fill the page and keep it, until the facets change."""
        self._bytes = self._bytes or self._source.survey()
        while worker.get("") is None:  # a model may be fetched first
            time.sleep(POLL_SECONDS)
        if not self._url:
            self._url = worker.url
            output.note(f"the page: {self._url} (until Ctrl-C)")
            if not self._settings.facets:
                output.note("hint: for subjects pass --facets preset:products, another, or a file")
        while worker.get("readyz") is None:
            time.sleep(POLL_SECONDS)
        status = msgspec.json.decode(worker.get("status") or b"{}")
        reads = status.get("reads") if self._settings.facets else None
        self._languages = Languages(reads) if reads else None
        started = time.monotonic()
        if (entities := self._fill(worker)) is None:
            return
        refused = f", {count:,} refused" if (count := worker.count("dead_letters")) else ""
        edit = f"; edit {self._facets.path}: the page follows" if self._facets.path else ""
        output.note(
            f"{many(worker.sent, 'reviews')} of {many(entities, 'entities')} are on the page "
            f"after {time.monotonic() - started:.0f} s{refused}{edit}"
        )
        if self._languages is not None and (unread := self._languages.warning):
            output.note(unread)
        while not self._facets.has_changed():
            worker.check()
            time.sleep(POLL_SECONDS)

    def _fill(self, worker: EmbeddedWorker) -> int | None:
        """Send all events and wait for the worker; the number of entities. None if facets change.
        Progress begins behind what was embedded before, which passes in no time.
        """
        entities: set[bytes] = set()
        waiting: deque[int] = deque()  # bytes of the events that the worker has not processed
        sent = done = 0  # bytes
        with output.file_progress(self._bytes, "reviews") as progress:
            for event in chain(self._source, [None]):
                if event is not None:
                    worker.send(*event)
                    entities.add(event[0])
                    if self._languages is not None:
                        self._languages.add(event[1])
                    waiting.append(len(event[1]))
                    sent += waiting[-1]
                is_enough = event is None or len(waiting) >= AHEAD
                while waiting and (is_enough or sent - done >= AHEAD_BYTES):
                    if self._facets.has_changed():
                        return None
                    worker.observe()
                    time.sleep(POLL_SECONDS)
                    while len(waiting) > worker.sent - worker.count("events"):
                        done += waiting.popleft()
                        is_enough = event is None
                    if done >= self._embedded:
                        self._embedded = done
                        progress.update(done, worker.count("events"))
        return len(entities)
