"""What a run tells of its machine, of the versions that it ran with and of its code, as words: only what is there."""

from collections.abc import Mapping

from gputune.comparing.subject import Subject
from gputune.core.figures import size
from gputune.core.sample import Json

SETTINGS = ("CUDA_", "NVIDIA_", "OMP_NUM", "MKL_", "OPENBLAS_", "NUMEXPR_", "TOKENIZERS_", "NCCL_", "GLOO_", "PYTORCH_")
MORE_SETTINGS = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "PYTHONHASHSEED", "PYTHONUNBUFFERED")


def facts(one: Subject) -> dict[str, str]:
    """Return what is known of where a run ran: each by the name that it is shown under."""
    about = one.about
    memory = about.get("memory")
    versions = _object(about.get("training"))
    found = {
        "host": _word(about.get("host")),
        "memory": size(memory) if isinstance(memory, int | float) else "",
        "driver": _word(about.get("driver")),
        **{name: _word(versions.get(name)) for name in ("python", "torch", "tensorflow", "cuda")},
        "gputune": _word(about.get("gputune")) or one.verdict.gputune,
    }
    return {name: word for name, word in found.items() if word}


def cpus(one: Subject) -> float | None:
    """Return how many CPUs the run was allowed to use, as its run.json tells."""
    allowed = _object(one.about.get("cpus")).get("allowed")
    return float(allowed) if isinstance(allowed, int | float) else None


def code(one: Subject) -> str:
    """Return the commit that the script's folder was at, and whether it had changes; "" where that is not known."""
    commit = _object(one.about.get("commit"))
    identity = _word(commit.get("id"))[:10]  # characters of a commit's id
    return f"{identity} with changes" if identity and commit.get("dirty") else identity


def environment(one: Subject) -> dict[str, str]:
    """Return the variables that are settings: no run's rank, job or port, which differ from run to run."""
    kept = _object(one.about.get("environment"))
    return {name: str(value) for name, value in kept.items() if name.startswith(SETTINGS) or name in MORE_SETTINGS}


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _word(value: Json) -> str:
    return str(value) if isinstance(value, str | int | float) else ""
