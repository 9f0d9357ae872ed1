"""Which batch system started a run, as its environment tells."""

from collections.abc import Mapping

from gputune.core.sample import Json

# A batch system to the names of its job in the environment, the most telling first; a pod is called as its machine is.
JOBS = {
    "slurm": ("SLURM_JOB_ID",),
    "pbs": ("PBS_JOBID",),
    "lsf": ("LSB_JOBID",),
    "kubernetes": ("JOB_NAME", "HOSTNAME"),
}
MARKS = {"kubernetes": "KUBERNETES_SERVICE_HOST"}  # what says that it is there, where that is not the job's name


def job(environ: Mapping[str, str]) -> dict[str, Json]:
    """Return which batch system started the run, and what it calls its job; nothing where none did."""
    for system, names in JOBS.items():
        if MARKS.get(system, names[0]) in environ:
            found = next((environ[name] for name in names if environ.get(name)), "")
            return {"job": {"system": system, "id": found}} if found else {}
    return {}
