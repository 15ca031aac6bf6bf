"""Tune a real PostgreSQL server with Procrastinated Tree Search.

Starts an embedded server, loads a small shop, and looks for indexes and settings that make its
queries fast. Ctrl-C stops cleanly; the same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path
import sys
import time

import optuna
from optuna.trial import FrozenTrial
from optuna.trial import TrialState
from tqdm import tqdm

from examples.postgres import cli
from examples.postgres.evaluator import Evaluator
from examples.postgres.failure import one_line
from examples.postgres.paired import measure_pairs
from examples.postgres.report import found_text
from examples.postgres.report import write_report
from examples.postgres.storage import open_storage
from examples.postgres.tune import best_configuration
from examples.postgres.tune import make_pruner
from examples.postgres.tune import make_sampler
from examples.postgres.tune import SAMPLERS
from examples.postgres.tune import shared_order
from examples.postgres.tune import spent
from examples.postgres.tune import tune
from optuna_pcts._secrets import without_secrets


_N_PAIRS = 5
# Seconds between two lines of progress where there is no terminal for a bar.
_LINE_EVERY = 10.0


def main() -> None:
    parser = cli.new_parser("examples.postgres", __doc__)
    parser.add_argument(
        "--budget",
        type=cli.positive,
        default=120.0,
        metavar="S",
        help="seconds that all trials of the study may take, earlier runs included",
    )
    parser.add_argument(
        "--trials", type=cli.positive_int, metavar="N", help="trials that the study may have"
    )
    parser.add_argument(
        "--storage",
        default="sqlite:///postgres-tuning.db",
        metavar="URL",
        help="where the study is kept",
    )
    parser.add_argument("--sampler", choices=SAMPLERS, default="pcts", help="who searches")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the sampler")
    parser.add_argument(
        "--report", type=Path, default=Path("postgres-report"), metavar="DIR", help="pictures"
    )
    parser.add_argument(
        "--only",
        choices=("tune", "report"),
        help="tune without a report at the end, as one of several workers on a study; or measure "
        "and report what the study has so far",
    )
    args = parser.parse_args()
    try:
        storage = open_storage(args.storage)
    except (ImportError, ValueError) as error:
        raise SystemExit(one_line(without_secrets(str(error), of=args.storage))) from error
    print(f"study: {without_secrets(args.storage)}")
    with cli.open_evaluator(parser, args) as evaluator:
        study = optuna.create_study(
            storage=storage,
            study_name="postgres",
            load_if_exists=True,
            pruner=make_pruner(args.sampler, evaluator.workload.n_rounds),
        )
        _check_same_workload(study, evaluator.workload.name)
        order = shared_order(study, evaluator)
        study.sampler = make_sampler(args.sampler, evaluator, seed=args.seed, order=order)
        interrupted = args.only != "report" and _tune(study, evaluator, args)
        if args.only == "tune":
            print(f"{'interrupted' if interrupted else 'done'}: {_progress(study)}")
            return
        found = best_configuration(study, evaluator)
        if found is None:
            raise SystemExit("No trial has finished.")
        if interrupted:
            print("Interrupted. The same command goes on; this is what was found so far:\n")
        print(found_text(evaluator, found))
        if interrupted:
            return
        evaluator.limit = None  # it has been measured before: only the machine can be slow now
        with tqdm(total=2 * _N_PAIRS, desc="default against found", leave=False) as bar:
            paired = measure_pairs(evaluator, found, n_pairs=_N_PAIRS, on_run=bar.update)
        print(paired)
        print(f"report: {write_report(args.report, study, evaluator, found, paired)}")


def _check_same_workload(study: optuna.Study, name: str) -> None:
    known = study.user_attrs.get("workload")
    if known is None:
        study.set_user_attr("workload", name)
    elif known != name:
        raise ValueError(
            f"The study in this storage is about another workload ({known}; now {name}). "
            "Choose another --storage."
        )


def _tune(study: optuna.Study, evaluator: Evaluator, args: argparse.Namespace) -> bool:
    """Tune and show the progress of all workers; return whether that was interrupted."""
    if _ended(study):
        print(f"resuming with {len(_ended(study))} trials")
    layout = "{desc}: {percentage:3.0f}% |{bar}| {n:.0f}/{total:.0f} s{postfix}"
    is_terminal = sys.stderr.isatty()  # elsewhere, as in the log of a container, bars are noise
    next_line = time.monotonic()
    with tqdm(total=args.budget, desc="tune", bar_format=layout, disable=not is_terminal) as bar:

        def show(_: object = None) -> None:
            nonlocal next_line
            seconds = min(spent(study), args.budget)
            if is_terminal:
                bar.set_postfix_str(_progress(study), refresh=False)
                bar.update(seconds - bar.n)
            elif time.monotonic() >= next_line:
                next_line = time.monotonic() + _LINE_EVERY
                print(f"tune: {seconds:.0f}/{args.budget:.0f} s, {_progress(study)}", flush=True)

        show()
        try:
            tune(
                study,
                evaluator,
                budget=args.budget,
                n_trials=args.trials,
                in_flight=args.in_flight,
                on_trial=show,
            )
        except KeyboardInterrupt:
            return True
    return False


def _ended(study: optuna.Study) -> list[FrozenTrial]:
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished()]


def _progress(study: optuna.Study) -> str:
    ended = _ended(study)
    values = [trial.values[0] for trial in ended if trial.state == TrialState.COMPLETE]
    return f"{len(ended)} trials, best {min(values, default=float('inf')):.2f} s"


if __name__ == "__main__":
    cli.run(main)
