"""TensorBoard and Weights & Biases as observers of flexdome; neither is needed by flexdome itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import flexdome as fd
from flexdome.experiments import Event


class Writer(Protocol):
    """What is asked of TensorBoard's ``SummaryWriter`` (of tensorboardX or torch)."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any:
        """Write one number."""


class ToTensorBoard:
    """Strong regret and violation of one run, as they grow, for ``fd.simulate(observer=...)``."""

    def __init__(self, writer: Writer, name: str = "run") -> None:
        self.writer, self.name = writer, name
        self.regret = 0.0
        self.violation: Any = 0.0

    def __call__(self, history: fd.History) -> None:
        """Take the next episodes."""
        self.regret += float(np.maximum(history.reward_gap, 0.0).sum())
        self.violation = self.violation + np.maximum(history.violation, 0.0).sum(axis=1)
        last = int(history.episodes[-1])
        self.writer.add_scalar(f"{self.name}/strong_regret", self.regret, last)
        self.writer.add_scalar(f"{self.name}/strong_violation", float(np.max(self.violation)), last)
        self.writer.add_scalar(f"{self.name}/gap", float(history.reward_gap[-1]), last)


class ToWandB:
    """Every run of ``run_experiments(watch=...)`` as a run of Weights & Biases; ``start`` is ``wandb.init``."""

    def __init__(self, start: Callable[..., Any], project: str) -> None:
        self.start, self.project = start, project
        self.runs: dict[str, Any] = {}
        self.sums: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        """Take what happened to a run."""
        id = event.run.id
        if event.kind == "started" and id not in self.runs:
            name = f"{event.run.learner.name} on {event.run.environment.name}, seed {event.run.seed}"
            config = event.run.model_dump(mode="json", exclude_none=True)
            self.runs[id] = self.start(project=self.project, name=name, id=id, config=config, reinit="create_new")
            self.sums[id] = 0.0
        if event.columns:
            gaps = [values for name, values in event.columns.items() if name.startswith("violation_")]
            rows = np.vstack([event.columns["reward_gap"], *gaps])
            self.sums[id] = self.sums[id] + np.maximum(rows, 0.0).sum(axis=1)
            numbers = {"strong_regret": float(self.sums[id][0]), "strong_violation": float(self.sums[id][1:].max())}
            self.runs[id].log(numbers, step=event.episode)
        if event.kind in ("finished", "failed"):
            self.runs.pop(id).finish(exit_code=int(event.kind == "failed"))


def main() -> None:
    """One run of FlexDOME, watched by TensorBoard."""
    from tensorboardX import SummaryWriter

    cmdp = fd.make_cmdp("media-v1", seed=0)
    learner = fd.FlexDOME(cmdp.problem(), episodes=80_000, tuning="practical")
    with SummaryWriter("tensorboard") as writer:
        fd.simulate(learner, cmdp, seed=0, observer=ToTensorBoard(writer, "FlexDOME"))


if __name__ == "__main__":
    main()
