"""A training that learns from what its policy does (reinforcement learning) is held up by its rollouts.

What it sees: the time in steps of environments (gymnasium's, alone or vectorised, and stable-baselines3's), the time
between two of them in which the policy says what to do next, and the rest of the loop, in which something is learnt.
How many environments a step steps, and whether these are in processes of their own.

Why it matters: one CPU steps environment after environment while the others, and the device, wait; a policy is asked
for a handful of observations, which takes it about as long as asking for hundreds.

What to do: step the environments in processes of their own (`gymnasium.vector.AsyncVectorEnv`,
`gymnasium.make_vec(..., vectorization_mode="async")`, `make_vec_env(..., vec_env_cls=SubprocVecEnv)`, RLlib's
`num_env_runners`), which leaves what is learnt as it is. Or step more of them at once, so that the policy is asked less
often: a rollout of as many samples then has fewer steps of each, which changes what is learnt.

When it is wrong: where a step of an environment computes on several threads or on a device, more processes do not share
it. A policy whose pass over many observations takes much longer than over a few gains less from more environments. How
evenly the CPUs share more processes than there are CPUs is not known: the interval has both ends.

Sources: Gymnasium documentation, "Vectorize"; Stable-Baselines3 documentation, "Vectorized Environments" (an ordinary
vectorised environment is faster where a step is cheap); RLlib documentation, "Scaling guide".
"""

from collections.abc import Iterator

from gputune.core.figures import cpus_of
from gputune.core.finding import Finding
from gputune.features import Acting, Features, Process
from gputune.model.environments import Loop, RolloutLayout, best_layout, loop_of
from gputune.model.minimum_samples import settled

PROCESSES = ("env_processes", "num_env_runners")  # what is changed: RLlib's have a name of their own
WORTH = 1.1  # times: a script is not changed for less


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        acting = process.acting
        if acting is None or not process.loop or not settled(process):
            continue
        found = best_layout(run, process, acting)
        if found.gain.likely >= WORTH and found.gain.sure > 1:
            yield _finding(run, process, acting, found)


def _finding(run: Features, process: Process, acting: Acting, found: RolloutLayout) -> Finding:
    now = loop_of(process, acting)
    more = found.environments != acting.environments
    return Finding(
        id="slow-rollouts",
        says=_says(run, acting, now),
        do=_do(acting, found),
        share_lost=1 - 1 / found.gain.likely,
        speedup=found.gain,
        basis=(
            "the measured shares of stepping, policy and learning; processes share the CPUs of this job, evenly at "
            "the most, and a pass of the policy over more observations costs at the most what one of the learning does"
        ),
        falsified_by=f"steps of environments a second with that below x{found.gain.low:.2f} of this run's",
        effect="changes-learning" if more else "identical",
        evidence={
            "environments": acting.environments,
            "processes": acting.processes,
            "environment_share": now.stepping / now.whole,
            "policy_share": now.policy / now.whole,
            "learning_share": now.learning / now.whole,
            "each_s": now.stepping,
            "per_s": 1 / now.whole,
            "cpus": run.machine.cpus,
        },
        where=acting.where,
        change={
            **({"num_envs": found.environments} if more and not acting.runners else {}),
            **({PROCESSES[acting.runners]: found.processes} if found.processes != acting.processes else {}),
        },
    )


def _says(run: Features, acting: Acting, now: Loop) -> str:
    many = acting.environments
    whose = f"{many} environments" if many > 1 else "one environment"
    return (
        f"{now.stepping / now.whole:.0%} of the loop steps {whose} {_where(run, acting)} "
        f"({now.stepping * 1e3:.3g} ms a step of each), {now.policy / now.whole:.0%} asks the policy what to do, "
        f"{now.learning / now.whole:.0%} learns"
    )


def _where(run: Features, acting: Acting) -> str:
    """Return which processes or CPUs step the environments, as a clause."""
    if acting.runners:
        return f"in {acting.processes} env runner{'s' if acting.processes > 1 else ''}"
    if acting.processes:
        return "in processes of their own"
    cpus = cpus_of(run.machine.cpus)[0]
    return f"on {cpus}" if run.machine.cpus <= 1 else f"on one of {cpus}"


def _do(acting: Acting, found: RolloutLayout) -> str:
    if acting.runners:
        return (
            f"num_env_runners={found.processes}: they make their rollouts side by side, on CPUs that are free meanwhile"
        )
    apart = "AsyncVectorEnv, SubprocVecEnv; RLlib: num_env_runners"
    if found.environments == acting.environments:
        return f"step each environment in a process of its own ({apart})"
    at_once = f"{found.environments} environments at once (num_envs, n_envs)"
    if found.processes and not acting.processes:
        return f"{at_once}, each in a process of its own ({apart})"
    return f"{at_once}, so that the policy is asked less often; rollouts of as many samples then have fewer steps"
