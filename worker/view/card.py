"""One entity's summary in full, with the sentences that came or left by its latest change, and
why.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from rich.console import Console
from rich.text import Text

from worker.errors import many
from worker.events import SummarySentence
from worker.view.board import Entity, EntityNames
from worker.view.reasons import headline, why_come, why_gone
from worker.view.texts import between, end_with_ellipsis, hanging, one_line

FLASH_SECONDS: Final = 0.5
FRESH_SECONDS: Final = 2.5
GONE_SHOWN: Final = 3

Block = list[Text]  # the lines of one thing


def card(
    console: Console,
    entity: Entity,
    names: EntityNames,
    width: int,
    height: int,
    now: float,
    doomed: Set[str] = frozenset(),
) -> list[Text]:
    """The card in at most `height` lines of at most `width` cells.

    If there is not enough room, the last sentences are cut. `now` is a time of the board's clock,
    `doomed` are reviews that are about to be deleted; their sentences are marked.
    """
    kept = [_sentence(console, entity, one, width, now, doomed) for one in entity.sentences]
    room = height - 1 - sum(map(len, kept))
    reason = _fitting([_reason(console, entity, names, width, now, doomed)], room, width)
    blocks = _gone(console, entity, width, now)
    gone = _fitting(blocks, room - len(reason), width)
    if blocks and reason and not gone:  # shorten the reason to show one that left
        reason = [_shortened(reason, width)]
        gone = _fitting(blocks, room - 1, width)
    rest = height - 1 - len(reason) - len(gone)
    lines = [_title(entity, names, width), *reason, *_cut_at_end(kept, width, rest), *gone]
    return lines[: max(height, 0)]


def _title(entity: Entity, names: EntityNames, width: int) -> Text:
    if entity.is_deleted:
        counts = "deleted"
    else:
        counts = (
            f"{many(entity.review_count, 'reviews')}, {many(entity.sentence_count, 'sentences')}"
        )
    changes = f", {many(entity.changes, 'changes')}" if entity.changes else ""
    return between(
        Text(names.of(entity.name), style="bold cyan"),
        Text(counts + changes, style="dim"),
        width,
    )


def _reason(
    console: Console, entity: Entity, names: EntityNames, width: int, now: float, doomed: Set[str]
) -> Block:
    if any(one.review_id in doomed for one in entity.sentences):
        text = Text("a review is about to be taken down", style="bold red")
    elif entity.latest is not None:
        is_fresh = now - entity.changed_at < FRESH_SECONDS
        text = Text(headline(entity.latest, names), style="yellow" if is_fresh else "dim")
    else:
        text = Text("as it was published last; no change since", style="dim")
    return hanging(console, Text("     "), text, width)


def _sentence(
    console: Console,
    entity: Entity,
    sentence: SummarySentence,
    width: int,
    now: float,
    doomed: Set[str],
) -> Block:
    text, mark = Text(one_line(sentence.text)), " "
    come = entity.come.get(sentence.sentence_id)
    if sentence.review_id in doomed:
        text.stylize("bold red")
        text, mark = _beside(text, "of that review"), "!"
    elif come is not None and come.change is entity.latest and now - come.at < FRESH_SECONDS:
        text.stylize("bold reverse green" if now - come.at < FLASH_SECONDS else "bold green")
        text, mark = _beside(text, why_come(come.change, sentence)), "+"
    return hanging(console, _gutter(sentence.rank, mark), text, width)


def _gone(console: Console, entity: Entity, width: int, now: float) -> list[Block]:
    blocks = []
    for one in entity.gone[:GONE_SHOWN]:
        if one.change is entity.latest and now - one.at < FRESH_SECONDS:
            text = Text(one_line(one.sentence.text), style="strike red")
            text = _beside(text, why_gone(one.change, one.sentence.sentence_id))
            blocks.append(hanging(console, Text("   - ", style="bold"), text, width))
    return blocks


def _gutter(rank: int, mark: str = " ") -> Text:
    return Text(f"{rank + 1:>2} {mark} ", style="bold" if mark.strip() else "dim")


def _beside(text: Text, reason: str) -> Text:
    return Text.assemble(text, " ", (f"({reason})", "dim"))


def _fitting(blocks: list[Block], room: int, width: int) -> list[Text]:
    """As many complete blocks as fit, but at least a line of the first one."""
    lines: list[Text] = []
    for block in blocks:
        if len(lines) + len(block) > room:
            return lines or [_shortened(block, width)][: max(room, 0)]
        lines += block
    return lines


def _shortened(block: Block, width: int) -> Text:
    """The first line, with an ellipsis if there are more."""
    return block[0] if len(block) == 1 else end_with_ellipsis(block[0], width)


def _cut_at_end(blocks: list[Block], width: int, room: int) -> list[Text]:
    """The sentences in at most `room` lines."""
    lines = [line for block in blocks for line in block]
    if len(lines) <= room:
        return lines
    return [] if room < 1 else [*lines[: room - 1], end_with_ellipsis(lines[room - 1], width)]
