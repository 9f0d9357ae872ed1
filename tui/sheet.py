"""The one widget: the lines of a page, some of which stay at the top, one of them marked, and a foot of keys.

It draws on Textual's Line API, and only the lines that are seen: a page of a thousand nodes costs what forty do. Every
text passes `hygiene` here for the second time; whatever a feed let through, no control byte reaches the terminal.
"""

from collections.abc import Sequence

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputune.tui.lines import EMPTY, Line, Lines, Page, harmless
from gputune.tui.roles import Roles
from gputune.tui.views import Key, foot_line

WHEEL = 3  # lines a notch
THUMB, PLAIN_THUMB = "▐", "|"
LETTERS = str.maketrans({
    "×": "x", "–": "-", "·": "|", "…": "~", "°": " ", "→": ">", "←": "<", "≤": "<", "≥": ">", "µ": "u",
})  # fmt: skip


class Sheet(Widget, can_focus=True):
    """Shows a page. `marked` is the line that Enter opens, -1 for none; `top` the first line that is seen."""

    ALLOW_SELECT = False  # dragging would redraw every line; terminals select with Shift held

    class Opened(Message):
        """A line was chosen, by Enter or by a click on the line that was marked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Headed(Message):
        """Somebody clicked at column `x` of line `y` of what stays at the top."""

        def __init__(self, x: int, y: int) -> None:
            super().__init__()
            self.x = x
            self.y = y

    class Pressed(Message):
        """Somebody clicked a key of the foot."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    class Resized(Message):
        """There is another size to fit into."""

    def __init__(self, roles: Roles, *, plain: bool = False) -> None:
        super().__init__()
        self.roles = roles
        self.marked = -1
        self.top = 0
        self._plain = plain
        self._page: Page = Lines((), ())
        self._foot: Sequence[Key] = ()
        self._said = ""  # in place of the keys
        self._drawn: list[tuple[Line, bool]] = []

    @property
    def page(self) -> Page:
        """Return the page that is shown."""
        return self._page

    @property
    def room(self) -> int:
        """Return how many lines of the page can be seen at once."""
        return max(1, self.size.height - len(self._page.head) - 1)

    @property
    def key(self) -> str:
        """Return the key of the marked line, empty for none."""
        return self._page.key(self.marked) if 0 <= self.marked < len(self._page) else ""

    def show(self, page: Page, foot: Sequence[Key], said: str = "", *, keep: str = "", anew: bool = False) -> None:
        """Show a page. The line with the key `keep` stays marked as long as it is in sight, else the place in the list.

        `anew`: it is another page, seen from its top, or from `keep`.
        """
        self._page, self._foot, self._said = page, foot, said
        place = page.find(keep) if keep else -1
        if anew:
            self.marked = place if place >= 0 else self._first()
            self.top = place - self.room // 2 if place >= self.room else 0
        elif place >= 0 and (self.top <= place < self.top + self.room or self.marked < 0):
            self.marked = place
        else:
            self.marked = self._nearest(max(0, self.marked))
        self._bound()
        self._redraw()

    def recolour(self, roles: Roles) -> None:
        """Take other colours."""
        self.roles = roles
        self.refresh()

    def move(self, by: int) -> None:
        """Mark the next line that can be chosen, in steps of lines; where that is far off, scroll towards it."""
        seen = range(self.top, min(self.top + self.room, len(self._page)))
        if self.marked not in seen:
            keyed = [k for k in seen if self._page.key(k)]
            if keyed:
                self.mark(keyed[0] if by > 0 else keyed[-1])
            else:
                self.scroll_lines(by)
            return
        step = 1 if by > 0 else -1
        found = min(max(0, self.marked + by), len(self._page) - 1)
        while 0 <= found < len(self._page) and not self._page.key(found):
            found += step
        beyond = found - (self.top + self.room - 1) if by > 0 else self.top - found
        if 0 <= found < len(self._page) and beyond <= abs(by):
            self.mark(found)
        else:
            self.scroll_lines(by)

    def mark(self, index: int) -> None:
        """Mark a line, and bring it into sight; before the first that can be chosen there is nothing more to mark."""
        self.marked = index
        if index == self._first() and index < self.room:
            self.top = 0
        elif index < self.top or index >= self.top + self.room:
            self.top = index - (0 if index < self.top else self.room - 1)
        self._bound()
        self._redraw()

    def scroll_lines(self, by: int) -> None:
        """Move what is seen."""
        self.top += by
        self._bound()
        self._redraw()

    def end(self, *, last: bool) -> None:
        """Go to the first or the last line."""
        order = range(len(self._page) - 1, -1, -1) if last else range(len(self._page))
        found = next((k for k in order if self._page.key(k)), -1)
        self.top = len(self._page) if last else 0
        self._bound()
        if self.marked >= 0 and found >= 0:
            self.marked = found
        self._redraw()

    def open(self) -> None:
        """Open the marked line."""
        if self.key:
            self.post_message(self.Opened(self.key))

    def _first(self) -> int:
        return next((k for k in range(len(self._page)) if self._page.key(k)), -1)

    def _nearest(self, index: int) -> int:
        """Return the line nearest to where a mark was."""
        if index < len(self._page) and self._page.key(index):
            return index
        keyed = [k for k in range(len(self._page)) if self._page.key(k)]
        return min(keyed, key=lambda k: abs(k - index), default=-1)

    def _bound(self) -> None:
        self.top = max(0, min(self.top, len(self._page) - self.room))

    def _redraw(self) -> None:
        """Have those lines drawn again that are others than those that were drawn."""
        lines = [self._at(y) for y in range(self.size.height)]
        if len(lines) != len(self._drawn):
            self._drawn = lines
            self.refresh()
            return
        changed = [y for y, (old, new) in enumerate(zip(self._drawn, lines, strict=True)) if old != new]
        self._drawn = lines
        if len(changed) > len(lines) // 2:
            self.refresh()
        elif changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def _at(self, y: int) -> tuple[Line, bool]:
        """Return what stands in a line of the widget, and whether it is marked."""
        head = self._page.head
        if y < len(head):
            return head[y], False
        if y == self.size.height - 1:
            return self._footing(), False
        index = y - len(head) + self.top
        if index >= len(self._page):
            return EMPTY, False
        return self._page.line(index), index == self.marked

    def _footing(self) -> Line:
        if self._said:
            return Line(((f" {self._said}", "value"),))
        return foot_line(self._foot, self.size.width)

    def render_line(self, y: int) -> Strip:
        """Return one line as Textual wants it."""
        if y >= len(self._drawn):
            self._drawn = [self._at(row) for row in range(self.size.height)]
        line, marked = self._drawn[y] if y < len(self._drawn) else (EMPTY, False)
        foot = y == self.size.height - 1
        return self._strip(line, marked=marked, foot=foot, thumb=self._thumb(y))

    def _strip(self, line: Line, *, marked: bool, foot: bool, thumb: bool) -> Strip:
        style = self.roles.style
        segments = []
        for text, role in line.spans:
            shown = harmless(text)
            if self._plain and not shown.isascii():
                shown = shown.translate(LETTERS).encode("ascii", "replace").decode("ascii")
            segments.append(Segment(shown, style(role, marked=marked, foot=foot)))
        width = self.size.width
        if not thumb:
            return Strip(segments).adjust_cell_length(width, style("", marked=marked, foot=foot))
        strip = Strip(segments).adjust_cell_length(width - 1, style("", marked=marked))
        return Strip([*strip, Segment(PLAIN_THUMB if self._plain else THUMB, style("dim"))], width)

    def _thumb(self, y: int) -> bool:
        """Return whether the scroll bar's thumb is beside this line: there is one where not all lines are seen."""
        count, room, row = len(self._page), self.room, y - len(self._page.head)
        if count <= room or not 0 <= row < room:
            return False
        size = max(1, room * room // count)
        start = (room - size) * self.top // max(1, count - room)
        return start <= row < start + size

    def on_resize(self, _event: events.Resize) -> None:
        """Ask for a page that fits."""
        self._drawn = []
        self.post_message(self.Resized())

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll."""
        event.stop()
        self.scroll_lines(WHEEL)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll."""
        event.stop()
        self.scroll_lines(-WHEEL)

    def on_click(self, event: events.Click) -> None:
        """Mark the line that was clicked; open it where it was marked already."""
        head = len(self._page.head)
        if event.y < head:
            self.post_message(self.Headed(event.x, event.y))
        elif event.y == self.size.height - 1:
            self._click_foot(event.x)
        else:
            index = event.y - head + self.top
            if index < len(self._page) and self._page.key(index):
                again = index == self.marked
                self.mark(index)
                if again:
                    self.open()

    def _click_foot(self, x: int) -> None:
        at = 0
        for key, says, action in self._foot:
            size = len(key) + len(says) + 3
            if at <= x < at + size:
                self.post_message(self.Pressed(action))
                return
            at += size
