"""`make test-install`: what a plain `pip install` of the project gives, in a venv and a folder that
know nothing of this one.

The default model is not part of it: without a hub the worker says in one line what to type, and
typing that is enough.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
REVIEW = '{"entity_id": "hut", "review_id": "r1", "text": "Very quiet place. The host was kind."}\n'
QUOTABLE = REVIEW.replace("Very quiet place.", "The place was very quiet and clean at night.")
PYTHON = """
from worker.coversumm import CoverSumm
from worker.summarizer import Summarizer
core = CoverSumm(k=1, dimension=2)
core.add("a", [3, 4])
stays = Summarizer(k=5)
stays.add([{"entity_id": "hut", "review_id": "r1", "text": "Very quiet place."}])
print([one.id for one in core.summary()], [one.text for one in stays.summary("hut").sentences])
"""


def main() -> None:
    """Raise where something is not as it must be."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        _copy(folder / "source")
        venv.create(folder / "venv", with_pip=True)
        bin_ = folder / "venv" / "bin"
        subprocess.run(
            [bin_ / "python", "-m", "pip", "install", "--quiet", folder / "source"], check=True
        )
        (folder / "reviews.jsonl").write_text(REVIEW)
        summarize = [bin_ / "coversumm-worker", "summarize", "reviews.jsonl"]
        refused = _run(summarize, folder)
        assert refused.returncode == 2, refused
        command = refused.stderr.splitlines()[-1].rpartition("): ")[2]
        print(f"without the model: {refused.stderr.splitlines()[-1]}")
        subprocess.run([*shlex.split(command), "--quiet"], check=True, cwd=folder)
        done = _run(summarize, folder)
        assert done.returncode == 0, done
        assert done.stderr.startswith("1 line, 1 entity, 1 change, "), done
        shown = [sentence["text"] for sentence in json.loads(done.stdout)["sentences"]]
        assert sorted(shown) == ["The host was kind.", "Very quiet place."], done
        (folder / "quotable.jsonl").write_text(QUOTABLE)
        options = ["quotable.jsonl", "--facets", "preset:stays", "--view", "overview"]
        overview = _run([*summarize[:2], *options], folder)
        assert json.loads(overview.stdout)["sentences"], overview
        python = _run([bin_ / "python", "-c", PYTHON], folder)
        assert (python.stdout, python.stderr) == ("['a'] ['Very quiet place.']\n", ""), python
        print(f"with it: {shown}")


def _copy(target: Path) -> None:
    """The files of the project as they are now, without what was built."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)


def _run(command: list[Path | str], folder: Path) -> "subprocess.CompletedProcess[str]":
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("COVERSUMM_", "HF_", "PYTHON"))
    }
    environment = {**kept, "HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(main())
