"""What a run tells of its machine and of the versions that it ran with, as words: only what is there."""

from collections.abc import Mapping

from gputune.comparing.subject import Subject
from gputune.sample import Json

SETTINGS = ("CUDA_", "NVIDIA_", "OMP_NUM", "MKL_", "OPENBLAS_", "NUMEXPR_", "TOKENIZERS_", "NCCL_", "GLOO_", "PYTORCH_")
MORE_SETTINGS = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "PYTHONHASHSEED", "PYTHONUNBUFFERED")


def facts(one: Subject) -> dict[str, str]:
    """Return what is known of where a run ran: each by the name that it is shown under."""
    about = one.about
    return {name: text for name, value in (("gputune", about.get("gputune")),) if (text := _word(value))}


def environment(one: Subject) -> dict[str, str]:
    """Return the variables that are settings: no run's rank, job or port, which differ from run to run."""
    kept = one.about.get("environment")
    found: Mapping[str, Json] = kept if isinstance(kept, dict) else {}
    return {name: str(value) for name, value in found.items() if name.startswith(SETTINGS) or name in MORE_SETTINGS}


def _word(value: Json) -> str:
    return str(value) if isinstance(value, str | int | float) and value != "" else ""
