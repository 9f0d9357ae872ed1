"""Rollouts that RLlib's env runners make in processes of their own: told in the training process by its own timers.

An iteration's `timers` say how long it waited for samples, those of its runners how a step of theirs is parted into
environment and policy. Where the training process steps the environments itself, `environments.py` sees them.
"""

import sys

from gputune_guest import patching, ring, spans, wrapping
from gputune_guest.words import ENVIRONMENT, RUNNERS

now = ring.now
here = ring.here
NS = 1e9
MOST_RUNNERS = RUNNERS - 1  # runners that a record has room for
POLICY = ("rlmodule_inference_timer", "env_to_module_connector", "module_to_env_connector")


def _begun(args, _kwargs):
    """Begin an iteration of an algorithm whose runners are processes of their own: when, how many, and what of each."""
    config = args[0].config
    runners = int(config.num_env_runners or 0) if spans.get_ident() == here.trainer else 0
    return (now(), runners, int(config.num_envs_per_env_runner or 1)) if runners else None


def _ended(begun, result, _error):
    t0, runners, each = begun
    if not isinstance(result, dict):
        return
    waited = _seconds(result.get("timers"), "env_runner_sampling_timer")
    if not waited:  # the old stack of RLlib's, or an algorithm that samples while it learns
        return
    told = result.get("env_runners")
    stepping, policy = _seconds(told, "env_step_timer"), sum(_seconds(told, name) for name in POLICY)
    steps = _seconds(told, "num_env_steps_sampled") / (runners * each)
    took = min(int(waited * NS), now() - t0)
    environment = int(took * stepping / (stepping + policy)) if stepping else took
    ring.record(
        *(ENVIRONMENT, min(runners, MOST_RUNNERS) | RUNNERS, t0, t0 + took, environment, max(1, round(steps))),
        *(took - environment, spans.site(sys._getframe(), "step"), runners * each),
    )


def _seconds(of, name):
    """Return one of their numbers, which may be numpy's; 0 where it is none."""
    try:
        return float(of[name])
    except (KeyError, TypeError, ValueError):
        return 0.0


def _hook(module):
    patching.patch(module.Algorithm, "step", lambda original: wrapping.around(original, _begun, _ended))


HOOKS = {"ray.rllib.algorithms.algorithm": _hook}
