"""An image as an OCI archive whose bytes depend on its contents alone: engines compress layers and
order members each in a way of its own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

TYPE: Final = "application/vnd.oci.image."
REFERENCE: Final = "org.opencontainers.image.ref.name"
LAYOUT: Final = {"imageLayoutVersion": "1.0.0"}
BLOCK: Final = 1 << 20
Descriptor = dict[str, Any]


def normalized(saved: Path, reference: str, target: Path) -> str:
    """Write the only image of `saved`, an archive with `index.json`, to `target`; its digest.

    Layers are those of the image, byte for byte before compression; anything else raises
    ValueError.
    """
    with tarfile.open(saved) as tar, TemporaryDirectory(dir=target.parent) as folder:
        (entry,) = json.load(_member(tar, "index.json"))["manifests"]
        manifest = json.load(_blob(tar, entry))
        config = _blob(tar, manifest["config"]).read()
        pairs = zip(manifest["layers"], json.loads(config)["rootfs"]["diff_ids"], strict=True)
        layers, blobs = [], Path(folder)
        for layer, diff_id in pairs:
            layers.append(_compressed(_blob(tar, layer), diff_id, blobs))
        body = {
            "schemaVersion": 2,
            "mediaType": f"{TYPE}manifest.v1+json",
            "config": _stored(config, "config.v1+json", blobs),
            "layers": layers,
        }
        described = _stored(_dumped(body), "manifest.v1+json", blobs)
        described["annotations"] = {REFERENCE: reference}
        index = {"schemaVersion": 2, "manifests": [described]}
        with tarfile.open(target, "w") as made:
            for file in sorted(blobs.iterdir()):
                with file.open("rb") as content:
                    _add(made, f"blobs/sha256/{file.name}", content, file.stat().st_size)
            for name, value in ("index.json", index), ("oci-layout", LAYOUT):
                _add(made, name, io.BytesIO(_dumped(value)), len(_dumped(value)))
    return str(described["digest"])


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    found = tar.extractfile(name)
    if found is None:
        raise ValueError(f"{name} is not a file of the archive")
    return found


def _blob(tar: tarfile.TarFile, described: Descriptor) -> IO[bytes]:
    return _member(tar, "blobs/" + described["digest"].replace(":", "/"))


def _dumped(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _stored(content: bytes, kind: str, blobs: Path) -> Descriptor:
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"mediaType": TYPE + kind, "digest": f"sha256:{digest}", "size": len(content)}


def _compressed(layer: IO[bytes], diff_id: str, blobs: Path) -> Descriptor:
    """Store a layer, compressed or not, as gzip of our own."""
    is_gzip = layer.read(2) == b"\x1f\x8b"
    layer.seek(0)
    content = gzip.GzipFile(fileobj=layer) if is_gzip else layer
    found, part = hashlib.sha256(), blobs / "part"
    with part.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as zipped:
        while block := content.read(BLOCK):
            found.update(block)
            zipped.write(block)
    if f"sha256:{found.hexdigest()}" != diff_id:
        raise ValueError(f"a layer is not the {diff_id} of the image's configuration")
    with part.open("rb") as raw:
        digest = hashlib.file_digest(raw, "sha256").hexdigest()
    size = part.stat().st_size
    part.rename(blobs / digest)
    return {"mediaType": f"{TYPE}layer.v1.tar+gzip", "digest": f"sha256:{digest}", "size": size}


def _add(tar: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    tar.addfile(member, content)
