"""Where a learner stands among the published ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from flexdome.cli.experiments import LIMIT, TIMEOUT, Address, Workers, count, option_grid, warn
from flexdome.errors import FlexDOMEError, ValidationError

if TYPE_CHECKING:
    from flexdome.experiments import Store

__all__ = ["rank"]

Learner = Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="LEARNER", help_behavior_hint="")]


def rank(
    learner: Learner = None,
    /,
    option: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUE")] = (),
    quick: bool = False,
    out: Path = Path("results/rank"),
    workers: Workers = None,
    cluster: Address = None,
    timeout: float = TIMEOUT,
    limit: float = LIMIT,
    publish: bool = False,
    stored: bool = False,
    anew: bool = False,
) -> None:
    """Run one learner on the ranking's suite, and print and draw where it stands among ours.

    The numbers of our learners come with the package; only yours is run. The rules are in docs/ranking.md.

    For example:
      flexdome rank my_package:MyLearner --quick
      flexdome rank my-learner --option step=0.1
      flexdome rank proxdome
      flexdome rank --publish --out results/ranking

    Args:
        learner: a registered id, or the import path of a class
        option: options of the learner
        quick: eight families and one seed, a few minutes: to see that it works
        out: directory of the results; the same command on it continues an interrupted one
        workers: processes on this machine; 0: none but this one, and the first failure is raised
        cluster: address of a Dask scheduler, instead of processes here
        timeout: seconds for a cluster to answer, and to have a worker that can be used
        limit: seconds after which a step of a run that has not ended is given up, and the run has failed
        publish: run those of our learners whose present version is not published instead, and write the numbers that
            come with the package
        stored: with --publish, run nothing and take what is there
        anew: with --publish, keep no number that is published: run all of our learners
    """
    from flexdome.cli.progress import Display
    from flexdome.cli.results import put
    from flexdome.cli.tables import say
    from flexdome.experiments import Store, make_engine
    from flexdome.ranking import entry_experiment, entry_learner
    from flexdome.ranking import rank as run
    from flexdome.ranking.standing_page import sections_of, sentences_of, write_figure, write_page

    if publish or stored or anew:
        if learner is not None or option or quick:
            raise ValidationError("publish takes no learner, option or quick: it is all of ours on the whole suite")
        if stored and not publish:
            raise ValidationError("stored is true without publish; it says where the published numbers come from")
        if anew and not publish:
            raise ValidationError("anew is true without publish; it says which numbers are published")
        _publish(Store(out), workers, cluster, timeout, limit, stored, anew)
        return
    if learner is None:
        raise ValidationError("LEARNER is missing; give a registered id (`flexdome list learners`), or package:Class")
    options = option_grid(option)
    if len(options) != 1:
        raise ValidationError(f"option has {len(options)} combinations; one setting is ranked at a time")
    chosen = entry_learner(learner, options[0])
    store = Store(out)
    with Display([entry_experiment(chosen, quick)]) as display:
        standing, outcome = run(chosen, store, make_engine(workers, cluster, timeout), quick, display, limit)
    print(f"{out}: {count(outcome.computed, 'run')} computed, {outcome.stored} there already")
    for text in sentences_of(standing):
        say(text)
    for caption, head, rows in sections_of(standing):
        put(caption, head, rows)
    name = standing.experiment.name
    for path in [
        *write_figure(standing, out / "figures" / name),
        write_page(standing, store, out / f"{name}.html", warn),
    ]:
        print(path)


def _publish(
    store: Store, workers: int | None, cluster: str | None, timeout: float, limit: float, stored: bool, anew: bool
) -> None:
    from flexdome.cli.progress import Display
    from flexdome.experiments import make_engine, run_experiments
    from flexdome.ranking import publish, published, suite_experiments, unpublished

    suite, keep = suite_experiments(), None if anew else published()
    specs = suite if keep is None else unpublished(keep)
    if specs and not stored:
        with Display(specs) as display:
            run_experiments(specs, store, make_engine(workers, cluster, timeout), display, limit=limit, check=False)
    path, frame = publish(store, keep=keep)
    if not frame.height:
        raise FlexDOMEError(f"{store.path} holds no run of the suite")
    asked = len({run.id for spec in suite for run in spec.runs()})
    new = frame.height if keep is None else frame.filter(~frame["run"].is_in(keep["run"].to_list())).height
    failed = int(frame["failure"].is_not_null().sum())
    size = path.stat().st_size / 1e3
    print(f"{path}: {frame.height} of {asked} runs, {new} of them new, {failed} failed, {size:.0f} kB")
