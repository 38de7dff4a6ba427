"""SSH keys of a publisher."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.signing import SIGNER


def new_key(folder: Path, name: str = "key") -> tuple[Path, Path]:
    """A new key, and the file of allowed signers that names it."""
    key, signers = folder / name, folder / f"{name}.signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    kind, public, *_ = key.with_suffix(".pub").read_text().split()
    signers.write_text(f'{SIGNER} namespaces="file" {kind} {public}\n')
    return key, signers
