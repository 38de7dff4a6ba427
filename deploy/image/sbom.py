"""The image's list of contents (SBOM, CycloneDX 1.6): its Python packages and model, and the
packages of the base.

Run while the image is built: `sbom.py PYTHON_SBOM DPKG_FOLDER OUTPUT`. `PYTHON_SBOM` is what
cyclonedx-py says of the environment; `DPKG_FOLDER` is the base's `/var/lib/dpkg`. The same contents
give the same bytes.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

WORKER = "coversumm-worker"
"""The Python package that the image is made for."""
SITE_PACKAGES = Path("/opt/worker/lib/python3.11/site-packages")


def debian_packages(dpkg: Path) -> Iterator[Message]:
    """The control fields of each package: of a file for each as distroless images have them, or of
    the one that dpkg keeps.
    """
    one_each = sorted(path for path in dpkg.glob("status.d/*") if path.suffix != ".md5sums")
    for path in one_each or [dpkg / "status"]:
        for paragraph in path.read_text().strip().split("\n\n"):
            yield HeaderParser().parsestr(paragraph)


def debian_component(package: Message) -> Component:
    """A package of the base."""
    name, version = package["Package"], package["Version"]
    purl = PackageURL("deb", "debian", name, version, {"arch": package["Architecture"]})
    return Component(
        type=ComponentType.LIBRARY, name=name, version=version, purl=purl, bom_ref=purl.to_string()
    )


def model_component() -> Component:
    """The default model, by the hash of its weights, which the build has checked."""
    sys.path.append(str(SITE_PACKAGES))
    from worker.text.minilm import MODEL, WEIGHTS_SHA256

    return Component(
        type=ComponentType.MACHINE_LEARNING_MODEL,
        name=MODEL.split("@")[0],
        version=MODEL.split("@")[1],
        bom_ref=MODEL,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=WEIGHTS_SHA256)],
    )


def main(python_sbom: str, dpkg: str, output: str) -> None:
    """Write the whole list; refuse one that is not valid or that knows nothing of the base."""
    bom = Bom.from_json(json.loads(Path(python_sbom).read_text()))
    packages = [debian_component(package) for package in debian_packages(Path(dpkg))]
    assert packages, f"no package of the base in {dpkg}"
    bom.components.update([*packages, model_component()])
    bom.metadata.component = next(
        component for component in bom.components if component.name == WORKER
    )
    bom.components.discard(bom.metadata.component)
    names = sorted(str(component.purl or component.name) for component in bom.components)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(names))
    bom.metadata.timestamp = datetime.fromtimestamp(0, UTC)
    bom.metadata.properties.add(Property(name="base:packages", value=str(len(packages))))
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(f"not CycloneDX: {error}")
    Path(output).write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
