"""`make help` lists every target in its group, and pre-commit runs the linters of `make check`."""

import re
import subprocess

import yaml

from docs.build.render import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
GROUPS = ["Start", "Check", "Prove", "Measure", "Deploy", "Docs"]


def test_help_lists_every_target_in_its_group() -> None:
    done = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in GROUPS] == GROUPS
    listed = re.findall(r"^  make ([a-z-]+)", done.stdout, flags=re.M)
    assert sorted(listed) == sorted(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, flags=re.M))
    assert any(re.match(r"  make demo +\d+ s +\w", line) for line in lines)


def test_pre_commit_runs_the_linters_of_the_checks() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    commands = [hook["entry"] for hook in repository["hooks"]]
    check = MAKEFILE.split("\ncheck: ")[1].split("\n\n")[0].replace("$(BIN)", ".venv/bin")
    linters = re.findall(r"@(.venv/bin/(?:ruff|mypy).*)", check)
    assert commands == linters
