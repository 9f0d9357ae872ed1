"""An agent's own look at its link to another agent, when somebody with the token asks for it: one at a time."""

import threading
from pathlib import Path

from gputune.wire import credentials, failing
from gputune.wire.address import parse
from gputune.wire.link_rate import NoLink, bounded, measure
from gputune.wire.messages import LinkRate, WhichLink


class Links:
    """Measures links with the credentials in `folder` (None: where they lie by default). Several threads may ask."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._one = threading.Lock()

    def measure(self, ask: WhichLink) -> LinkRate:
        """Return how fast the link from here is. Raises NoLink, or BadUsage for what is no address."""
        address = parse(ask.to)
        if address.path:
            raise NoLink("a Unix socket is no link: name a host, as it is called there")
        known = credentials.between(self._folder)
        if not self._one.acquire(blocking=False):
            raise NoLink("it measures another link at this moment")
        try:
            return measure(address, known, bounded(ask.seconds))
        except OSError as error:
            found = failing.why(address, known)
            said = f"it broke off ({type(error).__name__})" if found == failing.SILENT else found.says
            raise NoLink(f"{address}: {said}") from None
        except NoLink as refused:
            raise NoLink(f"{address}: {refused.args[0]}") from None
        finally:
            self._one.release()
