"""`python -m docs.build.site FOLDER`: stage the pages, and build the site of them in FOLDER."""

import subprocess
import sys
from pathlib import Path

from docs.build.site import llms
from docs.build.site.stage import ROOT, STAGE, stage


def main() -> int:
    """The exit code of mkdocs, which fails for a link that leads nowhere."""
    stage()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    folder = Path(sys.argv[1]).resolve()
    code = subprocess.run([*command, "--site-dir", str(folder)], cwd=ROOT).returncode
    if code == 0:
        llms.write(folder, STAGE, ROOT / "mkdocs.yml")
        print(f"open {folder / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
