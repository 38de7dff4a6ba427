"""The figures of `docs/reference/results.md`, from the records."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
CONTENDERS = {
    "brute force": "brute force",
    "FAISS flat, each event": "FAISS flat, each event",
    "ours, event by event": "the algorithm",
    "ours, native code, event by event": "in native code",
}
LARGE = "core_amazon_datafiniti.json"  # only its reviews: core.json has its other streams too


def core_table() -> str:
    """Microseconds an event, a line for each stream, and how many times as long FAISS takes."""
    lines = [
        "| " + " | ".join(("stream", *CONTENDERS.values(), "FAISS / native code")) + " |",
        "|---" * (len(CONTENDERS) + 2) + "|",
    ]
    core, large = read_record("core.json"), read_record(LARGE)
    streams = list(dict.fromkeys(row["stream"] for row in core["rows"]))
    for rows, stream in [(core["rows"], stream) for stream in streams] + [
        (large["rows"], large["rows"][-1]["stream"])
    ]:
        of = {row["contender"]: row["us_per_event"] for row in rows if row["stream"] == stream}
        cells = [
            f"{of[contender]:,.0f}" if of[contender] >= 10 else f"{of[contender]:.1f}"
            for contender in CONTENDERS
        ]
        lines.append(
            f"| {stream.replace(' x ', ' × ')} | {' | '.join(cells)} | "
            f"{of['FAISS flat, each event'] / of['ours, native code, event by event']:.0f} |"
        )
    machines = " and ".join(dict.fromkeys(machine_of(record) for record in (core, large)))
    return "\n".join(lines) + f"\n\nMeasured on {machines}."


def worker_table() -> str:
    """What the whole worker does in a second, and how long it takes to start."""
    record = read_record("worker.json")
    lines = [
        "| the whole worker | measured |",
        "|---|---|",
        "| events a second, exactly once, one process beside the broker | "
        f"{record['throughput']['events_per_s']:,.0f} |",
        f"| rows of 1 KB restored a second | {record['restore']['restore_rows_per_s']:,.0f} |",
        "| first touch of an entity with 100,000 sentences | "
        f"{record['cold_entity']['cold_touch_s']:.1f} s |",
        f"| start to ready | {record['start']['start_to_ready_s']:.1f} s |",
        *_latency_lines(record),
    ]
    parts = ["\n".join(lines), *_ratio_lines(record), *_budget_lines(record)]
    return "\n\n".join([*parts, f"Measured on {machine_of(record)}."])


def facets_table() -> str:
    """What eight facets cost the whole worker."""
    if not (RESULTS / "worker_facets.json").exists():
        return "Not recorded yet: `make bench-worker ONLY=facets` does it."
    record = read_record("worker_facets.json")
    backlog, texts, cold = record["backlog"], record["texts"], record["cold"]

    def line(name: str, row: Mapping[str, Any], figure: str, cell: str, unit: float = 1) -> str:
        plain, rich = row[figure] / unit, row["facets"][figure] / unit
        ratio = row["facets"]["over_ours"][figure]
        return f"| {name} | {cell.format(plain)} | {cell.format(rich)} | {ratio:.2f} |"

    ours, rich = cold["ours"]["cold_touch_s"], cold["facets"]["cold_touch_s"]
    lines = [
        f"| | without | {record['facets']} facets | ratio |",
        "|---|---|---|---|",
        line("events a second", backlog, "events_per_s", "{:,.0f}"),
        line("processor time of an event", backlog, "cpu_us_per_event", "{:,.0f} μs"),
        line("cache of an entity", backlog, "cache_bytes_per_entity", "{:,.0f} KiB", 1024),
        line("stored", backlog, "stored_bytes", "{:,.1f} MiB", 2**20),
        f"| first touch of an entity of {cold['sentences']:,} sentences | {ours:.2f} s | "
        f"{rich:.2f} s | {rich / ours:.2f} |",
        line("events a second, as text", texts, "events_per_s", "{:,.0f}"),
    ]
    return "\n".join(lines) + f"\n\nMeasured on {machine_of(record)}, by `{record['command']}`."


Measured = Mapping[str, Any]


def contenders_table(
    path: Path,
    target: str,
    about: Mapping[str, Callable[[Measured], str]],
    titles: Mapping[str, str],
    cell: Callable[[Measured], str],
) -> str:
    """What contenders did, a line a row of the record, a column each that was measured; says so
    when there is no record.

    Args:
        path: of the record.
        target: of make, which measures it.
        about: headings, and what the row has below them.
        titles: of the contenders, by the names that rows have them under.
        cell: the text for one.
    """
    if not path.exists():
        return f"Not recorded yet: `make {target}` does it."
    record = json.loads(path.read_text(encoding="utf-8"))
    names = [name for name in titles if any(name in row for row in record["rows"])]
    lines = [
        f"| {' | '.join((*about, *(titles[name] for name in names)))} |",
        "|---" * (len(about) + len(names)) + "|",
    ]
    for row in record["rows"]:
        cells = (cell(row[name]) if name in row else "-" for name in names)
        lines.append(f"| {' | '.join((*(text(row) for text in about.values()), *cells))} |")
    return "\n".join(lines) + f"\n\nMeasured on {machine_of(record)}, by `{record['command']}`."


LOADS = {
    "hot": "an event to its change, one entity of 100,000 sentences",
    "half": "an event to its change, at half load",
}
THREADS = {
    "processing": "processing",
    "commit": "committing",
    "rdk:broker": "librdkafka",
    "Thread": "fetching",
}
STAGES = {
    "decode": "of the Python form, by itself: decoding",
    "plan": "... planning",
    "rank": "... ranking",
    "messages": "... messages",
    "rows": "... rows",
}
OTHERS = {"by_thread": "all other threads", "within_processor": "... the rest"}
BACKLOGS = {
    "throughput": "synthetic",
    "real": "real reviews",
    "zipf": "a few busy entities, coalesced",
}


def _latency_lines(record: dict[str, Any]) -> list[str]:
    """Of the loads that were measured."""
    return [
        f"| {name}, {record[load]['events_per_s']:,} events/s | "
        f"{record[load]['change']['p50_ms']:.0f} ms, 99 of 100 within "
        f"{record[load]['change']['p99_ms']:.0f} ms |"
        for load, name in LOADS.items()
        if load in record
    ]


def _ratio_lines(record: dict[str, Any]) -> list[str]:
    """A table of what ours does, and over the commit that it was measured beside, where it was."""
    over = f"over_{record.get('against')}"
    found = {name: record[key] for key, name in BACKLOGS.items() if over in record.get(key, {})}
    if not found:
        return []
    lines = [
        f"| backlog | events a second | over {record['against']} | process | commit | "
        "processor time |",
        "|---" * 6 + "|",
    ]
    for name, row in found.items():
        ratio = row[over]
        times = (
            f"{row[f'{stage}_us_per_event']:.0f} μs ({ratio[f'{stage}_us_per_event']:.2f})"
            for stage in ("process", "commit", "cpu")
        )
        lines.append(
            f"| {name} | {row['events_per_s']:,.0f} | {ratio['events_per_s']:.2f} | "
            f"{' | '.join(times)} |"
        )
    return ["\n".join(lines)]


def _budget_lines(record: dict[str, Any]) -> list[str]:
    """Where the processor time of an event goes, by thread, and within the processing by stage."""
    found = {
        name: record[key]["budget"]
        for key, name in BACKLOGS.items()
        if "budget" in record.get(key, {})
    }
    if not found:
        return []
    lines = [
        f"| μs of processor time an event | {' | '.join(found)} |",
        "|---" * (1 + len(found)) + "|",
    ]
    for key, names in (("by_thread", THREADS), ("within_processor", STAGES)):
        parts = [row[key] for row in found.values()]
        for name, title in names.items():
            lines.append(
                f"| {title} | {' | '.join(f'{part.get(name, 0):.0f}' for part in parts)} |"
            )
        others = (
            sum(us for name, us in part.items() if name not in names and name != "process")
            for part in parts
        )
        lines.append(f"| {OTHERS[key]} | {' | '.join(f'{us:.0f}' for us in others)} |")
    return ["\n".join(lines)]


def embed_table(record: dict[str, Any] | None = None) -> str:
    """Sentences a second of the default engine, and what share of the processors' peak that is; of
    the record that is kept.
    """
    if record is None and not (RESULTS / "embed.json").exists():
        return "Not recorded yet: `make bench-embed` does it."
    record = record or read_record("embed.json")
    of = {threads: found["medians"] for threads, found in record["threads"].items()}
    prefixes = {"fp32": "", "bf16": "bf16_"}
    has_bf16 = "bf16_share" in next(iter(next(iter(of.values())).values()))
    columns = [
        (
            f"{threads} thread{'' if threads == '1' else 's'}, {precision}",
            found,
            prefixes[precision],
        )
        for precision in (prefixes if has_bf16 else ["fp32"])
        for threads, found in of.items()
    ]
    names = " | ".join(name for name, _, _ in columns)
    lines = [f"| sentences at once | {names} |", "|---" * (1 + len(columns)) + "|"]
    for size in columns[0][1]:
        cells = (
            f"{found[size][prefix + 'sentences_per_s']:,.0f} "
            f"({100 * found[size][prefix + 'share']:.0f} %)"
            for _, found, prefix in columns
        )
        lines.append(f"| {int(size):,} | {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\nMeasured on {machine_of(record)}."


def engines_table() -> str:
    """What each precision of the default engine gives and takes, beside PyTorch."""
    speed = read_record("embed.json")
    rows: dict[str, dict[str, str]] = {
        "sentences/s, 1,024 at once, 1 and 2 threads": _of_threads(
            speed, "sentences_per_s", lambda value: f"{value:,.0f}"
        ),
        "sentences/s, 32 at once": _of_threads(
            speed, "sentences_per_s", lambda value: f"{value:,.0f}", "32"
        ),
        "share of its peak, 1,024 at once": _of_threads(
            speed, "share", lambda value: f"{100 * value:.0f} %"
        ),
        "memory of a process, MiB": {
            precision: " and ".join(f"{mib:,.0f}" for mib in of.values())
            for precision, of in speed["memory_mib"].items()
        },
    }
    columns = [name for name in ENGINES if name in speed["memory_mib"]]
    lines = [
        f"| | {' | '.join(ENGINES[name] for name in columns)} |",
        "|---" * (1 + len(columns)) + "|",
    ]
    lines += [
        f"| {name} | {' | '.join(of.get(column, '') for column in columns)} |"
        for name, of in rows.items()
    ]
    return "\n".join(lines) + f"\n\nMeasured on {machine_of(speed)}."


ENGINES = {
    "fp32": "fp32",
    "bf16": "bf16",
    "pytorch_fp32": "PyTorch, fp32",
    "pytorch_bf16": "PyTorch, bf16",
}


def _of_threads(
    record: dict[str, Any], figure: str, show: Callable[[float], str], size: str = "1024"
) -> dict[str, str]:
    """By engine: the figure with each number of threads."""
    medians = [found["medians"][size] for found in record["threads"].values()]
    names = {engine: figure if engine == "fp32" else f"{engine}_{figure}" for engine in ENGINES}
    return {
        engine: " and ".join(show(of[name]) for of in medians)
        for engine, name in names.items()
        if all(name in of for of in medians)
    }


def text_line() -> str:
    """Reviews a second of a worker and of `summarize`, as text."""
    if not (RESULTS / "text.json").exists():
        return "Not recorded yet: `make bench-text` does it."
    record = read_record("text.json")
    return (
        f"The worker works off {record['worker_per_s']:.0f} reviews a second as text, and "
        f"`summarize` {record['summarize_per_s']:.0f}. Measured on {machine_of(record)}, with "
        f"{record['reviews']:,} reviews of the sample."
    )


def memory_table() -> str:
    """The most memory that workers took, by their settings and their load."""
    record = read_record("memory.json")
    lines = [
        "| settings | load | most memory | of it cache | databases | while restoring |",
        "|---" * 6 + "|",
    ]
    for row in record["rows"]:
        given = (
            ", ".join(f"`{name}` {value}" for name, value in row["settings"].items()) or "defaults"
        )
        cells = (
            f"{row[name]} MiB" for name in ("peak_mib", "cache_mib", "rocksdb_mib", "restoring_mib")
        )
        lines.append(f"| {given} | {row['case']} | {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\nMeasured on {machine_of(record)}."


def scale_table() -> str:
    """A worker with many partitions and one with many entities, a column each."""
    if not (RESULTS / "scale.json").exists():
        return "Not recorded yet: `make bench-scale` does it."
    record = read_record("scale.json")
    lines = {
        "partitions": "{partitions:,}",
        "entities": "{entities:,}",
        "ready, empty state": "{empty_to_ready_s:.1f} s",
        "ready, its own state": "{state_to_ready_s:.1f} s",
        "ready, the state lost": "{lost_to_ready_s:.1f} s",
        "of it the restore": "{restore_s:.1f} s, {restored_rows:,} rows, {restore_rows_per_s:,} a "
        "second",
        "a commit under a backlog": "{commit_ms:.0f} ms, of {events_per_commit:,.0f} events",
        "most memory while restoring": "{restoring_mib:,} MiB",
        "most memory": "{peak_mib:,} MiB",
    }
    rows = [
        row | {"events_per_commit": row["backlog_events"] / row["commits"]}
        for row in record["rows"]
    ]
    table = [
        f"| one worker | {' | '.join(row['case'] for row in rows)} |",
        "|---" * (1 + len(rows)) + "|",
        *(
            f"| {name} | {' | '.join(figures.format(**row) for row in rows)} |"
            for name, figures in lines.items()
        ),
    ]
    return "\n".join(table) + f"\n\nMeasured on {machine_of(record)}."


PAPER = {
    "uniform": "uniform",
    "lda": "LDA",
    "space": "SPACE's dimension",
    "adversarial": "drifting mean",
    "drift": "drift ahead of the mean",
    "reviews": "reviews",
}
PAPER_QUICK, PAPER_AMAZON = "paper-quick.json", "paper-quick_amazon_datafiniti.json"
NO_PAPER_QUICK = "Not recorded yet: `make paper-quick` does it."
PAPERS_OTHERS = ("naive-faiss", "coversumm-lazy")  # that native code stands beside


def paper_table() -> str:
    """Microseconds an event and accuracy of every method on the paper's streams and on reviews."""
    record = read_record("paper.json")
    return f"{_runtime(record, PAPER)}\n\nMeasured on {machine_of(record)}."


def paper_quick_table() -> str:
    """The same of `make paper-quick`, with other reviews beside them where they were recorded, and
    how many times as long others take as native code.
    """
    if not (RESULTS / PAPER_QUICK).exists():
        return NO_PAPER_QUICK
    record = read_record(PAPER_QUICK)
    streams, rows = PAPER | {"reviews": "Airbnb"}, list(record["rows"])
    if (RESULTS / PAPER_AMAZON).exists():
        streams["amazon"] = "Amazon"
        rows += [row | {"stream": "amazon"} for row in read_record(PAPER_AMAZON)["rows"]]
    times = {(row["method"], row["stream"]): row["us_per_event"] for row in rows}
    ratios = [
        f"| {name} / native | "
        + " | ".join(f"{times[name, of] / times['native', of]:.1f}" for of in streams)
        + " |"
        for name in PAPERS_OTHERS
    ]
    return (
        "\n".join((_runtime({"rows": rows}, streams), *ratios))
        + f"\n\nMeasured on {machine_of(record)}, with a load of "
        f"{record['machine']['load_before']:.0f} from other work."
    )


def _runtime(record: dict[str, Any], streams: Mapping[str, str]) -> str:
    """A line a method; of the streams those that the record has."""
    of = {(row["method"], row["stream"]): row for row in record["rows"]}
    shown = [stream for stream in streams if any(stream == has for _, has in of)]
    titles = [streams[stream] for stream in shown]
    lines = [f"| method | {' | '.join(titles)} |", "|---" * (len(shown) + 1) + "|"]
    for method in dict.fromkeys(row["method"] for row in record["rows"]):
        cells = [_paper_cell(of[method, stream]) for stream in shown]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def paper_intervals() -> str:
    """The events from one reservoir search to the next, and the law that they follow."""
    if not (RESULTS / PAPER_QUICK).exists():
        return NO_PAPER_QUICK
    lines = [
        "| stream | method | intervals | exponent | off c t by | off c √(t log t) by |",
        "|---" * 6 + "|",
    ]
    for row in read_record(PAPER_QUICK)["intervals"]:
        fits = (row["exponent"], row["off_t"], row["off_sqrt_t_log_t"])
        cells = ["" if fit is None else f"{fit:.2f}" for fit in fits]
        lines.append(
            f"| {PAPER[row['stream']]} | {row['method']} | {row['intervals']} | "
            f"{' | '.join(cells)} |"
        )
    return "\n".join(lines)


def paper_summaries() -> str:
    """The start of one summary at several times."""
    if not (RESULTS / PAPER_QUICK).exists():
        return NO_PAPER_QUICK
    lines = ["| sentences so far | the five nearest to the centroid |", "|---|---|"]
    for row in read_record(PAPER_QUICK)["times"]:
        lines.append(f"| {row['t']:,} | {' '.join(row['summary'])} |")
    return "\n".join(lines)


def _paper_cell(row: dict[str, Any]) -> str:
    time, accuracy = row["us_per_event"], row["accuracy"]
    # Below 100 it is never shown as 100, and otherwise to the percent.
    shown = f"{accuracy:.0f}" if accuracy == 100 or accuracy < 99.5 else f"{accuracy:.2f}"
    return f"{time:,.0f} ({shown})" if time >= 20 else f"{time:.1f} ({shown})"


def read_record(name: str) -> dict[str, Any]:
    """A record of `tests/bench/results`."""
    record: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return record


def machine_of(record: dict[str, Any]) -> str:
    """Where and when it was measured."""
    machine = record["machine"]
    cpu = machine["cpu"].replace("(R)", "").removesuffix(" Processor")
    return (
        f"{machine['cores']} shared cores ({cpu}, Python {machine['python']}, "
        f"{record['date'][:10]})"
    )
