"""`python -m docs.build.kustomize [--write]`: check or renew the kustomize base, which is the chart
rendered with its default values.

Separate from the other generated files, because it needs helm (`make deploy-tools`).
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.build.__main__ import main
from docs.build.chart import CHART, DEPLOY
from tests.deploy.tools import HELM, run

NAME: Final = "coversumm-worker"
BASE: Final = DEPLOY / "kustomize" / "base"
_HEAD: Final = "# Rendered from deploy/chart by `make kustomize`: change that.\n"
# Labels that only helm keeps current.
_OF_HELM: Final = re.compile(
    r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE
)


def base_files() -> Iterator[tuple[Path, str]]:
    """Path and wanted text of each file of the base."""
    rendered = run(HELM, "template", NAME, CHART, "--no-hooks", "--skip-tests")
    text = re.sub(r"[ \t]+$", "", _OF_HELM.sub("", rendered), flags=re.MULTILINE)
    files = {}
    for part in text.split("---\n# Source: ")[1:]:
        template, _, body = part.partition("\n")
        name = Path(template).name
        files[name] = files[name] + "---\n" + body if name in files else _HEAD + body
    yield from ((BASE / name, body) for name, body in sorted(files.items()))
    listed = "".join(f"  - {name}\n" for name in sorted(files))
    kinds = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
    yield BASE / "kustomization.yaml", _HEAD + kinds + listed


if __name__ == "__main__":
    BASE.mkdir(parents=True, exist_ok=True)
    sys.exit(main(sys.argv[1:], base_files()))
