"""Loader settings as they are tried: their names, and their cost."""

from dataclasses import dataclass

from gputune.core.sample import Json
from gputune.features import Loader
from gputune.model.replay import TYPICAL_PREFETCH

NAMES = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderSetting:
    """Settings of one loader. Without workers there is nothing to prefetch (None) and nothing that persists."""

    num_workers: int
    prefetch_factor: int | None = None
    pin_memory: bool = False
    persistent_workers: bool = False
    batch_size: int | None = None  # None: batches are made by the dataset or by a sampler of the script's own

    @property
    def queue(self) -> int:
        """Return how many finished batches may lie in memory at once."""
        return self.num_workers * (self.prefetch_factor or 0)

    @property
    def plain(self) -> dict[str, Json]:
        """Return the settings by name, in the order in which they are shown."""
        return {name: getattr(self, name) for name in NAMES}

    def cost(self, script: "LoaderSetting") -> tuple[int, int, bool, bool]:
        """Return a sort key: the cheaper of two settings has the smaller one.

        Fewer workers, then less memory in queues, then less that differs from what the script has.
        """
        return (
            self.num_workers,
            self.queue,
            self.pin_memory != script.pin_memory,
            self.persistent_workers != script.persistent_workers,
        )

    def changes(self, script: "LoaderSetting") -> dict[str, Json]:
        """Return what has to be set for it, in a script that has the settings `script`."""
        mine, theirs = self.plain, script.plain
        wanted = (name for name, value in mine.items() if value is not None and value != theirs[name])
        found: dict[str, Json] = {name: mine[name] for name in wanted}
        if not self.num_workers:  # what only workers have goes with them, and is no setting then
            found.pop("persistent_workers", None)
        return found

    def words(self) -> str:
        """Return the settings as they are typed."""
        shown = {name: value for name, value in self.plain.items() if value is not None}
        return " ".join(f"{name}={value}" for name, value in shown.items() if value is not False)


def setting_of(loader: Loader) -> LoaderSetting:
    """Return the settings that a loader had."""
    return setting(
        loader.num_workers,
        loader.prefetch_factor or TYPICAL_PREFETCH,
        pin_memory=loader.pin_memory,
        persistent=loader.persistent_workers,
        batch_size=loader.batch_size,
    )


def setting(
    workers: int, prefetch: int, *, pin_memory: bool, persistent: bool, batch_size: int | None = None
) -> LoaderSetting:
    """Return a setting, without what makes no sense where there are no workers."""
    return LoaderSetting(
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        pin_memory=pin_memory,
        persistent_workers=persistent and workers > 0,
        batch_size=batch_size,
    )
