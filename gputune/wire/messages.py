"""What agents and screens say to each other, as plain data: JSON in Flight's tickets, actions and schema metadata.

Nothing here changes anything on a node: one may ask who is there, for what is new on its screen, for a document of a
run, and for the samples of a run from a cursor on; and have an agent measure its link to another agent, which is the
only thing that makes it speak to anybody. Fields are only ever added within one `PROTOCOL`.
"""

from typing import Final

import msgspec

PROTOCOL: Final = 1
MACHINE: Final = "machine"  # the run that the agent itself records: the node's devices, CPUs, disks, network

# Sizes, with their reasons. A reader refuses more than that, whoever sends it.
LONGEST_ASK: Final = 4096  # B; a ticket or an action's body is a name and a few numbers
LARGEST_ANSWER: Final = 8 << 20  # B in one message: a screen's news of a node with a hundred runs is a tenth of it
MOST_ROWS: Final = 1 << 16  # in one answer: a MiB of frames with one value in a row has fewer
MOST_COLUMNS: Final = 1 << 16  # as many as 16 bits can number

META: Final = b"gputune"  # key of a schema's metadata in which `RowsHeader` lies
HELLO, NEWS, DOCUMENT, LINK = "hello", "news", "document", "link"  # actions
ACTIONS: Final = {
    HELLO: "who is there, and what time it is",
    NEWS: "what is new on its screen since an earlier answer",
    DOCUMENT: "run.json, live.json or findings.json of a run",
    LINK: "how fast the link from here to another agent is: some seconds of traffic",
}
LINK_SECONDS: Final = (0.2, 5.0)  # s each way that a measurement may last
LINK_ALPN: Final = "gputune-link"  # what TLS is asked for by who measures a link, in place of Flight's "h2"
LATEST: Final = -1  # as the segment of a `CursorFields`: begin with the newest one
DOCUMENTS: Final = frozenset({"run.json", "live.json", "findings.json"})


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers. `unix` is its clock (s) when it did; `life` tells one start of the agent from the next."""

    protocol: int
    gputune: str
    host: str
    life: str
    unix: float
    runs: tuple[str, ...] = ()


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for news: `until` of the last answer of the agent's `life`; 0 and "" ask for everything."""

    protocol: int = PROTOCOL
    until: int = 0
    life: str = ""
    parts: bool = False  # parts of rows may be left out that are as they were by `until`: all of that was heard


class News(msgspec.Struct, frozen=True, kw_only=True):
    """What is new on a node's own screen: `update` is a rows.Update, encoded. `whole`: it is all that there is.

    `relay`: it speaks for other nodes, and its rows have their names.
    """

    protocol: int
    life: str
    unix: float
    whole: bool
    relay: bool = False
    update: msgspec.Raw


class WhichDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for a document of a run, by its file's name."""

    run: str
    name: str


class WhichLink(msgspec.Struct, frozen=True, kw_only=True):
    """Asks an agent to measure its link to the one at `to`, as it would be typed there, for `seconds` each way."""

    protocol: int = PROTOCOL
    to: str
    seconds: float = 2.0


class LinkRate(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a link is: B/s to the other agent and back, over `streams` connections at once, counted on arrival.

    `…_at_least`: one of the ends may have set that pace, and the link carries at least as much. `answer` is the median
    time (s) there and back of 64 B, TLS and Python at both ends included, `answer_least` the shortest one.
    """

    sent: float
    sent_at_least: bool
    received: float
    received_at_least: bool
    answer: float
    answer_least: float
    streams: int


class CursorFields(msgspec.Struct, frozen=True, array_like=True):
    """How far a run's samples are known: see recording.pulling.Cursor, whose fields these are."""

    segment: int = 0
    row: int = 0
    known: int = 0
    form: str = ""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A Flight ticket: the samples of a run after `since`, of the metrics named in `only` (all, where it is empty)."""

    protocol: int = PROTOCOL
    run: str
    since: CursorFields = CursorFields()
    only: tuple[str, ...] = ()


class MetricColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column of the answer: its number, and its declaration as recordings keep it (recording.encoding.declared)."""

    id: int
    about: str


class RowsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of an answer's rows, in the metadata of its schema.

    `anew`: forget all columns known so far. `more`: there is more to be had at once. `missed`: rows in between were
    dropped on the node to keep its folder below its size. `clocks`: ns from the rows' clock to Unix time on the node.
    """

    protocol: int
    run: str
    rows: int
    next: CursorFields
    columns: tuple[MetricColumn, ...]
    anew: bool
    more: bool
    missed: bool
    clocks: int
    unix: float


# msgspec prepares a type when it is first met, and two threads that meet it first at one time bring the process down (a
# segmentation fault, 0.22). So types that threads decode are met here, by the one thread that imports.
for _kind in (Hello, Since, News, WhichDocument, WhichLink, LinkRate, Ask, RowsHeader):
    msgspec.json.Decoder(_kind)
