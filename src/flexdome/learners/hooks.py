"""The hooks of a learner that are asked for outside a run, and the names that they had before they were public."""

from __future__ import annotations

from flexdome.errors import ValidationError

__all__ = ["HOOKS", "refuse_old_names"]

HOOKS = frozenset({"options", "state", "restore", "thresholds_changed", "seen_counts", "utility_means"})
ASKED_OF_ALL = {"_options": "options", "_state": "state", "_restore": "restore"}
RENAMED = {
    **ASKED_OF_ALL,
    "_thresholds_changed": "thresholds_changed",
    "_seen": "seen_counts",
    "_utility_means": "utility_means",
}
CALLED = {"_count": "count_episode", "_checked": "checked_episode", "_checked_each": "checked_episodes"}


def refuse_old_names(learner: type) -> None:
    """Refuse a class that still writes the private hooks, with the names they have now.

    A learner of old has to be edited anyway, since every one wrote these three; one error that lists all the names is
    less to keep than two sets of names.
    """
    old = {name: new for name, new in RENAMED.items() if name in vars(learner) and new not in vars(learner)}
    if old.keys() & ASKED_OF_ALL.keys():
        renamed = ", ".join(f"{name} is {new}" for name, new in {**old, **CALLED}.items())
        raise ValidationError(f"{learner.__name__} writes {', '.join(old)}; the hooks are public now: {renamed}")
