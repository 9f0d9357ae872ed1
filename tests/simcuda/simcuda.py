"""The CUDA build of torch on simulated cards: where its parts lie, and how they are made.

`python tests/simcuda/simcuda.py` makes them, in `.venvs/simcuda` of the repository (or `SIMCUDA_HOME`): a virtual
environment with torch's CUDA build and stubs for NVIDIA's libraries, once; the simulated runtime, once for each state
of its sources. Several processes may ask at the same time. Without the wheel it leaves with status 77 and one sentence.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "simgpu")]
import simgpu  # noqa: E402
import stubs  # noqa: E402

HOME = Path(os.environ.get("SIMCUDA_HOME") or ROOT / ".venvs" / "simcuda").absolute()
PYTHON = HOME / "venv" / "bin" / "python"
LIBRARY = "libsimcuda.so"
TORCH = "torch==2.13.0"
BESIDE_TORCH = ("numpy", "filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools")
HEADERS = ("nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88")
SKIP = 77  # the exit status by which callers know that there was nothing to run
PATIENCE = 1200.0  # s for a download


class UnavailableError(RuntimeError):
    """The CUDA build of torch, or what makes the rest, is not to be had here."""


def is_torchs_own(status: int, errors: str) -> bool:
    """Return whether a process ended as a thread of torch may have it, behind all of a script: in bare runs as well."""
    return status == -signal.SIGABRT and errors.endswith("terminate called without an active exception\n")


def ready() -> Path:
    """Make what is missing, and return the folder that the simulated runtime lies in. Raises UnavailableError."""
    HOME.mkdir(parents=True, exist_ok=True)
    with _alone():
        if not (HOME / ".ready").exists():
            _make_environment()
            (HOME / ".ready").touch()
        return _build()


def environment(state: Path, **options: str | None) -> dict[str, str]:
    """Return the environment in which `python` has CUDA on the cards of `state`, and `gputune` is found.

    `options` are the runtime's `SIMCUDA_…` variables by their lower-case names; None is left as it was.
    """
    built, env = ready(), dict(os.environ)
    env |= {f"SIMCUDA_{name.upper()}": value for name, value in options.items() if value is not None}
    beside = Path(sys.executable).parent  # gputune's own commands
    return env | {
        "SIMGPU_STATE": str(state),
        "PATH": _joined(PYTHON.parent, beside, env.get("PATH")),
        "LD_PRELOAD": _joined(built / LIBRARY, env.get("LD_PRELOAD")),
        "LD_LIBRARY_PATH": _joined(simgpu.build(), HOME / "stubs", env.get("LD_LIBRARY_PATH")),
        "TRITON_LIBCUDA_PATH": str(built),
        "SIMGPU_CACHE": str(simgpu.build().parent),
    }


def _joined(*parts: str | Path | None) -> str:
    return os.pathsep.join(str(part) for part in parts if part)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_environment() -> None:
    for tool in ("readelf", "nm", _compiler()):
        if not shutil.which(tool):
            raise UnavailableError(f"no simulated CUDA: `{tool}` is not installed")
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True, timeout=PATIENCE)
    if not _has_cuda():
        _pip("install", "--no-deps", "--force-reinstall", TORCH)
        if not _has_cuda():
            raise UnavailableError(f"no simulated CUDA: the {TORCH} that pip found is not built for CUDA")
        _pip("install", *BESIDE_TORCH)
        with contextlib.suppress(UnavailableError):  # torch.compile does without it on the host alone
            _pip("install", "--no-deps", _triton())
    _fetch_headers()
    (HOME / "stubs").mkdir(exist_ok=True)
    stubs.make(_site() / "torch" / "lib", HOME / "stubs", _compiler())


def _site() -> Path:
    return next((HOME / "venv" / "lib").glob("python*")) / "site-packages"


def _has_cuda() -> bool:
    version = _site() / "torch" / "version.py"
    return version.exists() and "cuda: Optional[str] = '" in version.read_text()


def _triton() -> str:
    (metadata,) = _site().glob("torch-*.dist-info/METADATA")
    for line in metadata.read_text().splitlines():
        if line.startswith("Requires-Dist: triton"):
            return line.removeprefix("Requires-Dist: ").split(";")[0].strip()
    return "triton"


def _pip(*arguments: str | Path) -> None:
    """Run pip as it is by default: this machine's settings may prefer another build of torch. Then with them."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [PYTHON, "-m", "pip"]
    quiet = ["--quiet", "--disable-pip-version-check"]
    tries = (
        ([*command, "--isolated", *arguments, *quiet], plain | {"PIP_CONFIG_FILE": os.devnull}),
        ([*command, *arguments, *quiet], dict(os.environ)),
    )
    last = "pip failed"
    for tried, env in tries:
        try:
            subprocess.run(tried, env=env, capture_output=True, text=True, check=True, timeout=PATIENCE)
            return
        except subprocess.TimeoutExpired:  # noqa: PERF203
            last = f"no answer in {PATIENCE:.0f} s"
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or [last])[-1]
    raise UnavailableError(f"no simulated CUDA: `pip {' '.join(map(str, arguments))}` failed: {last}")


def _fetch_headers() -> None:
    if (HOME / "include" / "crt").exists():
        return
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        for wheel in HEADERS:
            _pip("download", "--no-deps", "--dest", folder, wheel)
        for file in Path(folder).glob("*.whl"):
            shutil.unpack_archive(file, Path(folder) / "unpacked", "zip")
        part = HOME / "include-part"
        for include in sorted((Path(folder) / "unpacked").rglob("include")):
            shutil.copytree(include, part, dirs_exist_ok=True)
        part.rename(HOME / "include")


def _compiler() -> str:
    return os.environ.get("CC", "cc")


def _sources() -> list[Path]:
    engine = [file for file in sorted(simgpu.HERE.glob("*.c")) if file.name != "nvml.c"]
    return [*sorted(HERE.glob("*.c")), *engine]


def _build() -> Path:
    sources = _sources()
    text = b"".join(file.read_bytes() for file in [*sources, HERE / "simcuda.h", simgpu.HERE / "sim.h"])
    folder = HOME / "build" / hashlib.sha256(text).hexdigest()[:16]
    if (folder / LIBRARY).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "part"
    flags = ["-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{HOME / 'include'}"]
    # is_pinned() needs a library of torch that asks for libcuda.so.1: this is it
    link = ["-Wl,-soname,libcuda.so.1", "-lpthread", "-ldl", "-lm"]
    subprocess.run([_compiler(), *flags, "-o", part, *sources, *link], check=True, timeout=300)
    for name in ("libcuda.so", "libcuda.so.1"):  # what Triton looks for, and links with
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(LIBRARY)
    part.rename(folder / LIBRARY)
    return folder


def main() -> int:
    """Make everything, and say where it is."""
    try:
        print(ready())
    except UnavailableError as error:
        print(error, file=sys.stderr)
        return SKIP
    return 0


if __name__ == "__main__":
    sys.exit(main())
