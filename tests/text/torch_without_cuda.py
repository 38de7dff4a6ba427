"""Make PyPI's torch importable where it cannot run CUDA anyway: `python torch_without_cuda.py
SITE_PACKAGES`.

On Linux x86-64 PyPI has torch with CUDA only, and 4 GB of NVIDIA's libraries behind it, which the
CPU never calls but the linker wants. This puts libraries of the same names and symbols beside torch
whose functions all return an error ("no device"); only the CUDA runtime (2 MB) is NVIDIA's own,
since torch asks it whether there is a device. For the venv of the parity tests alone; whoever uses
the engine installs the CPU build from PyTorch's own index. Needs gcc and readelf.
"""

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

NVIDIA = re.compile(r"lib(cu|nv|nccl)")
SYMBOL = re.compile(r"_*(cu|nv|nccl)")
NO_DEVICE = 100


def wanted(library: Path) -> tuple[set[str], set[tuple[str, str, str]]]:
    """The libraries that `library` is linked to, and (library or "", symbol, version or "") of what
    it does not define.
    """
    text = subprocess.run(
        ["readelf", "--wide", "--dynamic", "--dyn-syms", "--version-info", library],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    origin, file = {}, ""
    for line in text.splitlines():
        if found := re.search(r"Version: \d+\s+File: (\S+)", line):
            file = found[1]
        elif found := re.search(r"Name: (\S+)\s+Flags: \S+\s+Version: \d+", line):
            origin[found[1]] = file
    symbols = set()
    for name in re.findall(r" UND (\S+)", text):
        name, _, version = name.partition("@")
        symbols.add((origin.get(version, ""), name, version))
    return set(re.findall(r"NEEDED.*\[(.+)\]", text)), symbols


def write(path: Path, versions: dict[str, set[str]]) -> None:
    """A shared library at `path` that defines the symbols, each under its version ("" is none)."""
    names = sorted(set().union(*versions.values()))
    script = "".join(
        f"{v} {{ global: {'; '.join(sorted(s))}; }};\n" for v, s in versions.items() if v
    )
    with tempfile.TemporaryDirectory() as folder:
        source, exports = Path(folder, "stand_in.c"), Path(folder, "exports")
        source.write_text(
            "".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names)
            or "int unused;\n"
        )
        exports.write_text(script)
        options = [f"-Wl,--version-script={exports}"] if script else []
        subprocess.run(
            [
                "gcc",
                "-shared",
                "-fPIC",
                "-w",
                source,
                f"-Wl,-soname,{path.name}",
                *options,
                "-o",
                path,
            ],
            check=True,
        )


def main(site_packages: Path) -> None:
    folder = site_packages / "torch" / "lib"
    present = {
        library.name for library in (*folder.iterdir(), *site_packages.glob("nvidia/*/lib/*"))
    }
    libraries = [wanted(library) for library in folder.glob("*.so*")]
    contents: dict[str, dict[str, set[str]]] = {
        name: defaultdict(set)
        for needed, _ in libraries
        for name in sorted(needed)
        if NVIDIA.match(name) and name not in present
    }
    for origin, name, version in set().union(*(symbols for _, symbols in libraries)):
        if origin in contents:
            contents[origin][version].add(name)
        elif contents and not version and SYMBOL.match(name):
            # the linker looks an unversioned symbol up in every library
            contents[min(contents)][""].add(name)
    for name, versions in contents.items():
        write(folder / name, versions)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
