"""Reporting: metrics sent to TensorBoard, wandb or any server, where the training thread waits for it.

And the run that they go to: `trackers.py`.
"""

import _socket

from gputune_guest import patching, spans, trackers
from gputune_guest.words import REPORTING

INTERNET = (_socket.AF_INET, _socket.AF_INET6)
_family = _socket.socket.family.__get__  # without the conversion to an enum that socket.socket adds


def _here(what, least=0, wanted=None):
    return spans.timed(REPORTING, what, least=least, anywhere=False, wanted=wanted)


def _writer(what):
    def hook(module):
        writer = module.SummaryWriter
        patching.patch(writer, "__init__", trackers.writer)
        for name in [*vars(writer)]:
            if name.startswith("add_") or name in {"flush", "close"}:
                patching.patch(writer, name, spans.timed(REPORTING, what + name, least=spans.SHORT, joined=True))

    return hook


def _wandb(module):
    trackers.open_wandb()
    patching.patch(module.Run, "__init__", trackers.wandb_run)
    patching.patch(module.Run, "log", spans.timed(REPORTING, "wandb.log", least=spans.SHORT, joined=True))


def _mlflow(module):
    for name in ("log_metric", "log_metrics", "log_batch", "log_artifact"):
        timed = _here("mlflow." + name)
        patching.patch(module.MlflowClient, name, lambda original, timed=timed: trackers.mlflow(timed(original)))


def _http(module):
    for name in ("request", "getresponse"):
        patching.patch(module.HTTPConnection, name, _here("http." + name))


def _urllib3(module):
    patching.patch(module.HTTPConnectionPool, "urlopen", _here("http.urlopen"))


def _sockets(module):
    def internet(args):
        return _family(args[0]) in INTERNET  # the workers' queues use sockets of the machine's own

    for name in ("connect", "send", "sendall", "recv", "recv_into"):
        patching.patch(module.socket, name, _here("socket." + name, spans.SHORT, internet))


HOOKS = {
    "torch.utils.tensorboard.writer": _writer("tensorboard."),
    "tensorboardX.writer": _writer("tensorboardX."),
    "wandb.sdk.wandb_run": _wandb,
    "mlflow.tracking.client": _mlflow,
    "http.client": _http,
    "urllib3.connectionpool": _urllib3,
    "socket": _sockets,
}
