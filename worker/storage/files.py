"""The files of a partition's database: what must hold before it is opened, and what RocksDB's complaints come to.

RocksDB checks by itself, at opening, that every table file its manifest names is there and has its size, and at reading the
checksum of every block; a damaged end of its own log (WAL) it cuts off, which gives an older state with an older
changelog offset: the restore then goes on from there. One damage it does not see: a manifest that lost its end names
too few table files, while the log, which goes on behind them, brings the newest offset. Rows would be missing under an
offset that says they are there. What shows it are the sequence numbers that RocksDB gives its writes: the log must go on where
the manifest ends.
"""

import re
import struct
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from worker.errors import CoversummError, Crash
from worker.state.errors import DamagedDatabase

# A record of a log: checksum u32, length u16, type u8, in recycled logs the log's number u32; then a write batch, which
# begins with the sequence number of its first row.
# Bytes of the header by the record's type: of a whole batch or its first part, and of the same in a recycled log.
_HEADER_BYTES = {1: 7, 2: 7, 5: 11, 6: 11}
_TYPE_AT = 6
_SEQUENCE = struct.Struct("<Q")
_HEAD_BYTES = 11 + _SEQUENCE.size


def check_files(folder: Path) -> None:
    """Raise DamagedDatabase where manifest and logs of a closed database leave rows out. Nothing is written."""
    if not (folder / "CURRENT").exists():
        return  # no database, or one that lost all of its rows: it is restored from the start
    begins = _first_sequence(folder)
    if begins is None:
        return
    ends = _manifest_sequence(folder)
    if begins > ends + 1:
        raise DamagedDatabase(
            str(folder),
            f"its manifest ends at write {ends} and its log begins at {begins}: files with the writes between are lost",
        )


def _first_sequence(folder: Path) -> int | None:
    """Sequence number of the first write in the oldest log that has any; None where no log has, or it cannot be read."""
    for path in sorted(folder.glob("*.log"), key=lambda path: int(path.stem)):
        with path.open("rb") as log:
            head = log.read(_HEAD_BYTES)
        if head:
            header = _HEADER_BYTES.get(head[_TYPE_AT]) if len(head) > _TYPE_AT else None
            if header is None or len(head) < header + _SEQUENCE.size:
                return None  # RocksDB cuts such a log off at its beginning
            return int(_SEQUENCE.unpack_from(head, header)[0])
    return None


def _manifest_sequence(folder: Path) -> int:
    """The last write that the manifest knows of: of the database without its logs."""
    options = Options(raw_mode=True)
    options.set_wal_dir(str(folder.parent))  # where no log is
    options.set_max_open_files(20)  # or every table file would be opened
    try:
        database = Rdict(
            str(folder), options, access_type=AccessType.read_only(error_if_log_file_exist=False)
        )
    except Exception as error:
        raise explained(folder, error) from error
    try:
        return int(database.latest_sequence_number())
    finally:
        database.close()


def explained(folder: Path | str, error: Exception) -> Exception:
    """What an error of RocksDB's comes to: a damage, a full disk, or the error itself where it is neither."""
    if isinstance(error, CoversummError):
        return error
    text = str(error)
    if any(full in text for full in ("No space left on device", "Disk quota exceeded")):
        return Crash(
            f"the disk of {folder} is full ({_first_line(text)}): the worker ends, and so does every start of it until there is "
            "room; nothing is lost, and nothing has to be repaired"
        )
    about_files = re.search(r"\b(sst|manifest|current)\b", text, re.IGNORECASE)
    if text.startswith(("Corruption:", "IO error: No such file")) or (
        text.startswith("Invalid argument:") and about_files
    ):
        return DamagedDatabase(str(folder), _first_line(text))
    return error


def _first_line(text: str) -> str:
    return " ".join(text.split("\n")[0].split()).rstrip(".")
