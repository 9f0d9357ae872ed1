"""Stub libraries for `pip install --no-deps torch`: the NVIDIA libraries that torch's own name, with nothing in them.

Each has the SONAME and the symbol versions that torch's libraries ask for. A symbol that the simulated runtime has is
never reached; any other returns 35, `cudaErrorInsufficientDriver`. It saves two of 2.5 GB.
"""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

OF_NVIDIA = re.compile(r"lib(cu|nv|nccl)")
VERSIONED = re.compile(r"(\w+)@+(lib[\w.]+|NVSHMEM)$")
PLAIN = re.compile(r"(cu[A-Z]|cusparseLt|nccl|cuFile|nvshmem|nvrtc)\w+$")
PREFIXES = {"libcusparseLt": "cusparseLt", "libnccl": "nccl", "libcufile": "cuFile", "libnvshmem": "nvshmem"}
SHARED_VERSION = "NVSHMEM"  # a version node that is not the library's SONAME


def make(torch_lib: Path, folder: Path, compiler: str) -> list[str]:
    """Write the stubs that the libraries in `torch_lib` need into `folder`, and return their names."""
    libraries = sorted(torch_lib.glob("*.so"))
    needed = _needed(libraries) - {path.name for path in torch_lib.iterdir()} - {"libcuda.so.1"}
    versioned, plain = _wanted(libraries)
    for soname in sorted(needed):
        version = soname if soname in versioned else SHARED_VERSION if "nvshmem" in soname else None
        names = set(versioned.get(version, ())) if version else set()
        for start, prefix in PREFIXES.items():
            if soname.startswith(start):
                names |= {name for name in plain if name.startswith(prefix)}
        _compile(folder, soname, version, names, compiler)
    return sorted(needed)


def _needed(libraries: list[Path]) -> set[str]:
    text = "".join(_output("readelf", "-d", library) for library in libraries)
    return {name for name in re.findall(r"NEEDED.*\[(.*?)\]", text) if OF_NVIDIA.match(name)}


def _wanted(libraries: list[Path]) -> tuple[dict[str, set[str]], set[str]]:
    """Return the undefined symbols by their version, and those without one."""
    versioned: dict[str, set[str]] = defaultdict(set)
    plain: set[str] = set()
    defined: set[str] = set()
    for library in libraries:
        for line in _output("nm", "-D", library).splitlines():
            *kind, name = line.split()
            if "U" not in kind:
                defined.add(name)
            elif match := VERSIONED.match(name):
                versioned[match[2]].add(match[1])
            elif PLAIN.match(name):
                plain.add(name)
    return versioned, plain - defined


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def _compile(folder: Path, soname: str, version: str | None, names: set[str], compiler: str) -> None:
    source = folder / "stub.c"
    source.write_text(
        "\n".join(f"int {name}(void) {{ return 35; }}" for name in sorted(names)) or "int nothing_here;\n"
    )
    arguments = [compiler, "-w", "-shared", "-fPIC", "-o", folder / soname, source, f"-Wl,-soname,{soname}"]
    if version:
        script = folder / "stub.map"
        script.write_text(f"{version} {{ global: *; }};\n")
        arguments.append(f"-Wl,--version-script={script}")
    subprocess.run(arguments, check=True, timeout=300)
