"""What comes of a run: features to findings, `findings.json`, and a few words on stderr."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gputune.core import replacing
from gputune.core.finding import Finding
from gputune.core.hygiene import clean
from gputune.core.sample import Guest
from gputune.features import Features
from gputune.features.windowing import alike
from gputune.gathering import Gatherer
from gputune.host import native
from gputune.launch import folders
from gputune.launch.link import Ended
from gputune.launch.run import WatchedRun
from gputune.recording.folder import FINDINGS, REPORT
from gputune.verdict.building import Overhead, Verdict, build, to_json
from gputune.verdict.document import Tuned

WIDTH = 80  # columns where stderr is no terminal


class RunOutcome:
    """Judges one run that has ended, and tells of it. `alone`: nobody is there any more to be told."""

    def __init__(self, run: WatchedRun, ended: Ended, *, alone: bool) -> None:
        self._run = run
        self._ended = ended
        self._silent = alone
        self._json = b""
        self.troubles: list[str] = []
        self.began = ""  # when the command was started, ISO 8601
        self.recorded = True  # there is a recording to be named
        self.features: Features | None = None  # what was measured
        self.tuned: Tuned | None = None  # what became of its loader
        self.since: Features | None = None  # thin: what was known when its loader came to be as it was at the end
        self.before: Features | None = None  # what was known when it was last the same before, if that is so
        self.exit_code = None if ended.code is None else ended.code if ended.code >= 0 else 128 - ended.code

    def judge(
        self, gatherer: Gatherer, unavailable: Mapping[str, str], own_cpu: float | None, guests: Iterable[Guest]
    ) -> Verdict | None:
        """Return the verdict, or None where it cannot be made."""
        try:
            features = gatherer.features(self._ended.t, exit_code=self.exit_code, unavailable=unavailable)
            self.features = features
            cost = gatherer.guest_cost()
            overhead = Overhead(
                sampler_cpu_share=own_cpu,
                guest_us_per_batch=None if cost is None else cost * 1e6,
                in_python=native.lacking(features),
            )
        except Exception as error:  # noqa: BLE001 - the recording is still worth keeping
            self.troubles.append(f"the run could not be judged ({type(error).__name__}: {error})")
            return None
        return self.decide(features, overhead, guests)

    def decide(self, features: Features, overhead: Overhead, guests: Iterable[Guest]) -> Verdict | None:
        """Return the verdict on what is known, or None where it cannot be made."""
        failed: dict[str, str] = {}
        try:
            judged = alike(self.before, self.since, features)
            findings, perhaps = _findings(judged, failed, self.tuned) if features.processes else ([], [])
            verdict = build(
                features,
                findings,
                perhaps=perhaps,
                overhead=overhead,
                guests=guests,
                price=self._run.price,
                tuned=self.tuned,
                started=self.began,
                unjudged=failed,
            )
            self._json = to_json(verdict)
        except Exception as error:  # noqa: BLE001 - the recording is still worth keeping
            self.troubles.append(f"the run could not be judged ({type(error).__name__}: {error})")
            return None
        self.troubles += [f"advisor `{name}` failed ({why})" for name, why in failed.items()]
        return verdict

    def keep(self, verdict: Verdict | None, *, broken: bool = False) -> None:
        """Write `findings.json` into the run folder, and the file that `--json` names.

        With `broken`, it is known and said already that the run folder cannot be written.
        """
        if verdict is None:
            return
        if self._run.folder:
            why = self._write_findings(f"{self._run.folder}/{FINDINGS}")
            if why and not broken:
                self.troubles.append(why)
        if self._run.json == "-":
            why = "" if self._silent else _put(1, self._json)
            if why:
                self.troubles.append(f"the verdict was not written to stdout ({why})")
        elif self._run.json:
            why = replacing.put(self._run.json, self._json)
            if why:
                self.troubles.append(why)

    def hand(self, verdict: Verdict) -> None:
        """Keep a verdict that was made elsewhere."""
        self._json = to_json(verdict)
        self.keep(verdict)

    def speak(self, verdict: Verdict | None, troubles: Sequence[str]) -> None:
        """Print the verdict, and what went wrong on the way to it, in one write."""
        shown, troubles = "", [trouble for trouble in troubles if trouble]
        if verdict is not None and not self._run.quiet:
            try:
                shown = self._rendered(verdict)
            except Exception as error:  # noqa: BLE001 - the file has it all the same
                troubles.append(f"the verdict could not be shown ({type(error).__name__}: {error})")
        page = f"page: {self._typed()}/{REPORT}, in a moment" if shown and self.paged else ""
        self._print([*filter(None, [shown, page]), *map(_trouble, troubles)])

    @property
    def paged(self) -> bool:
        """Return whether a page is to be made of it."""
        return self._run.html and bool(self._run.folder) and self.recorded

    def write_page(self) -> None:
        """Have a process of its own write the page."""
        from gputune.watching.recorder import afterwards  # noqa: PLC0415 - only where a page is asked for

        why = afterwards.write_page(self._run.folder, self._typed() or self._run.folder)
        if why:
            self.add(why)

    @property
    def exported(self) -> tuple[str, ...]:
        """Return where the run is to be taken."""
        return tuple(filter(None, self._run.export.split(",")))

    def start_export(self) -> None:
        """Have a process of its own take it there."""
        from gputune.watching.recorder import afterwards  # noqa: PLC0415 - only where that is asked for

        if not (self._run.folder and self.recorded):
            self.add("nothing was exported: there is no recording")
            return
        typed = self._typed() or self._run.folder
        troubles, told = afterwards.export(self._run.folder, typed, self.exported, paged=self.paged)
        self._print([*([told] if told and not self._run.quiet else []), *map(_trouble, troubles)])

    def add(self, trouble: str) -> None:
        """Print one more thing that went wrong, after the verdict."""
        self._print([_trouble(trouble)])

    def _rendered(self, verdict: Verdict) -> str:
        from gputune.report import streams, terminal  # noqa: PLC0415 - not with --quiet

        is_terminal = os.isatty(2)
        width = WIDTH
        if is_terminal:
            try:
                width = os.get_terminal_size(2).columns or WIDTH
            except OSError:
                width = WIDTH
        colour = streams.colour_wanted(os.environ, terminal=is_terminal)
        text = terminal.render(
            verdict,
            width=width,
            colour=colour,
            run_folder=self._typed(),
        )
        return streams.encodable(text, getattr(sys.stderr, "encoding", None))

    def _typed(self) -> str | None:
        """Return the run folder as the user would type it, None where there is none."""
        if not self._run.folder or not self.recorded:
            return None
        return folders.typed(self._run.folder)

    def _print(self, lines: Sequence[str]) -> None:
        if lines and not self._silent:
            _put(2, ("\n" + "\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))

    def _write_findings(self, file: str) -> str:
        """Write `findings.json` in one move, or not at all; return why not."""
        new = Path(f"{file}.new")
        why = replacing.write(str(new), self._json, os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            if not why:
                new.rename(file)
                return ""
            new.unlink(missing_ok=True)
        except OSError as error:
            why = why or f"`{file}` was not written ({error.strerror or error})"
        return why.replace(f"{file}.new", file)


def _trouble(text: str) -> str:
    return f"gputune: {clean(text, 300)}"


def _findings(features: Features, failed: dict[str, str], tuned: Tuned | None) -> tuple[list[Finding], list[Finding]]:
    """Return what was found, and what may be worth a try."""
    from gputune.verdict import judging  # noqa: PLC0415 - only where somebody trained

    perhaps: list[Finding] = []
    return judging.with_tried(judging.judge(features, failed, perhaps), perhaps, tuned)


def _put(descriptor: int, data: bytes) -> str:
    """Write to a stream; return why that was not possible, nothing where its reader has merely gone."""
    try:
        replacing.whole(descriptor, data)
    except BrokenPipeError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""
