"""Chromium without a window, told what to do by the DevTools protocol over a pipe: it needs no library."""

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 90.0  # s for any answer, on a machine that does other things as well
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


def found() -> str:
    """Return the browser's program, "" where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


class Chromium:
    """One browser. It reads NUL-separated JSON on descriptor 3 and answers on descriptor 4."""

    def __init__(self, profile: Path) -> None:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = [found(), *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End it, and wait for that."""
        self.send("Browser.close")
        self._process.wait(PATIENCE)
        os.close(self._to)
        os.close(self._from)

    def send(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """Return the answer to a command; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == self._number:
                assert "error" not in told, (method, told["error"])
                return dict(told["result"])
            self.events.append(told)

    def wait(self, method: str, session: str) -> None:
        """Wait until an event has come, now or earlier."""
        while not any(e.get("method") == method and e.get("sessionId") == session for e in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            readable, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, "the browser does not answer"
            data = os.read(self._from, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def show(self, file: Path, *, scripts: bool = True, width: int = 1280, dark: bool = False) -> "Shown":
        """Open a file in a page of its own, and return it once it has loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable", session)
        self.send("Emulation.setScriptExecutionDisabled", session, value=not scripts)
        self.send(
            "Emulation.setDeviceMetricsOverride",
            session,
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", session, features=[scheme])
        self.events = [event for event in self.events if event.get("sessionId") != session]
        self.send("Page.navigate", session, url=file.as_uri())
        self.wait("Page.loadEventFired", session)
        return Shown(self, target, session)


class Shown:
    """A page that is open."""

    def __init__(self, browser: Chromium, target: str, session: str) -> None:
        self._browser = browser
        self._target = target
        self._session = session

    def ask(self, expression: str) -> Any:
        """Return what an expression is worth in the page. It is ours, so it runs where scripts are off as well."""
        told = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to a command to this page."""
        return self._browser.send(method, self._session, **params)

    def complaints(self) -> list[str]:
        """Return all that a page should not do: errors, warnings, dialogs, and requests for anything but itself."""
        self.ask("0")  # whatever was under way before has come by now
        mine = [event for event in self._browser.events if event.get("sessionId") == self._session]
        return [text for event in mine if (text := _complaint(event["method"], event["params"]))]

    def drag(self, selector: str, start: float, end: float) -> None:
        """Drag across an element, from one share of its width to another."""
        self.ask(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.ask(
            f"(r => [r.x, r.y, r.width, r.height])(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        x, y, width, height = box
        for kind, at in (("mouseMoved", start), ("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            button = {} if kind == "mouseMoved" and at == start else {"button": "left", "buttons": 1, "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, x=x + at * width, y=y + height / 2, **button)

    def close(self) -> None:
        """Close it."""
        self._browser.send("Target.closeTarget", targetId=self._target)


COMPLAINTS = {
    "Runtime.exceptionThrown": lambda params: str(params["exceptionDetails"]),
    "Runtime.consoleAPICalled": lambda params: str(params["args"]),
    "Log.entryAdded": lambda params: str(params["entry"]),
    "Page.javascriptDialogOpening": lambda params: f"a dialog: {params['message']}",
    "Network.requestWillBeSent": lambda params: _asked(params["type"], params["request"]["url"]),
}


def _complaint(method: str, params: dict[str, Any]) -> str:
    return COMPLAINTS[method](params) if method in COMPLAINTS else ""


def _asked(kind: str, url: str) -> str:
    own = url.startswith("data:") or (kind == "Document" and url.startswith("file:"))
    return "" if own else f"a request: {url}"
