"""Compares robust rules under attacks, on generated systems and on MNIST.

    python -m binaries.benchmark_robustness --data_dir=DATA

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. 2023 (Algorithm 5).
Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing
    Karimireddy, He, Jaggi. ICLR 2022 (MNIST).
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import pathlib
import sys
from typing import Any, Mapping, Sequence

from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.evaluation import robustness as tables
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import side_by_side

SUMMARY = """\
python -m binaries.benchmark_robustness --data_dir=DIR
    [--parts=overpersonalized,control,mnist_iid,mnist_shards] [--rounds=N]
    [--jobs=N]

Makes tables of rules against attacks, each with robustness in its own folder.

  overpersonalized  FFGG, 20 honest and 5 Byzantine clients; honest clients
                    share an optimal shared part, so robust rules are exact.
  control           FFGG on clients without a common optimum: all rules stall.
  mnist_iid, mnist_shards
                    MNIST from DIR, 25 workers of which 5 attack, 600 rounds of
                    one gradient of 32 examples per worker, mlp_200; examples
                    dealt at random, or two classes per worker. Rules with and
                    without bucketing, one seed; then three seeds for the four
                    rules whose worst cells over both partitions are best.

Tables are made in parallel, one per core. Rerun the same command to resume.
Writes benchmark.md beside the folders."""

PARTS = benchmarks.read_settings(str(
    pathlib.Path(__file__).parent / 'benchmarks/settings/robustness.yaml'
))
_NUM_BEST, _SEEDS = 4, '0,1,2'
_NOTE = """\
Distances to the optimum of the honest clients (overpersonalized, control), or
mean test accuracies of the honest clients (MNIST), after the last round: the
median over seeds, with the worst seed in brackets. Published for MNIST in
another setting (a CNN, workers with momentum 0.9): the geometric median (RFA)
under ipm 11.3 %, with bucketing 96.2 %; centered clipping with bucketing
97.8 %."""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program(
      'benchmark_robustness', SUMMARY, flag_table, _benchmark, argv
  )


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag('parts', ','.join(PARTS), 'Tables to make.'),
      flags.own_flag('data_dir', '', 'Folder of MNIST.'),
      flags.own_flag(
          'rounds', 0, 'Rounds of all tables; 0: those listed above.', minimum=0
      ),
      flags.own_flag(
          'jobs', 0, 'Tables made in parallel; 0: one per core.', minimum=0
      ),
      flags.own_flag('output_dir', '', 'Folder of the results.'),
  ])


def _benchmark(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  given = {**flags.own_defaults(table), **given}
  parts = flags.chosen('parts', given['parts'], list(PARTS))
  images = [part for part in parts if PARTS[part].files]
  if images and not given['data_dir']:
    raise flags.UsageError(
        f'`--data_dir` must be the folder of MNIST for {images[0]}, found none.'
    )
  top = given['output_dir'] or flags.resolve_path('runs/benchmark_robustness')
  _make_tables(parts, given, top)
  if len(images) == 2:
    best = ','.join(best_rules([_rows(top, part) for part in images]))
    _make_tables(images, given, top, rules=best, seeds=_SEEDS)
  _write(top, parts)
  return 0


def _make_tables(
    parts: Sequence[str], given: Mapping[str, Any], top: str, **changes: str
) -> None:
  """Makes tables, or adds cells to existing ones."""
  programs = {}
  for part in parts:
    asked = {
        **PARTS[part].flags, 'output_dir': os.path.join(top, part), **changes
    }
    if PARTS[part].files:
      asked['data_dir'] = given['data_dir']
    if given['rounds']:
      asked['rounds'] = given['rounds']
    programs[part] = [
        'binaries.robustness',
        *(f'--{name}={value}' for name, value in asked.items()),
    ]
  jobs = given['jobs'] or side_by_side.num_cores()
  codes = side_by_side.run(programs, min(jobs, len(parts)))
  for part, code in codes.items():
    if code:
      raise flags.Failure(f'The table {part} ended with exit code {code}.')


def best_rules(parts: Sequence[Sequence[Mapping[str, str]]]) -> list[str]:
  """Returns the rules with the best worst-case accuracy over all cells.

  Only cells of the first seed count, because all rules have them.

  Args:
    parts: The rows of every table.
  """
  worst: dict[str, float] = {}
  for rows in parts:
    first = [row for row in rows if row['seed'] == '0']
    rules, _, values = tables.cells(first)
    for rule, row in zip(rules, values[..., 1]):
      # A cell without a number counts as accuracy 0.
      least = min(0.0 if value > 1 else value for value in row)
      worst[rule] = min(least, worst.get(rule, 1.0))
  return sorted(worst, key=worst.__getitem__, reverse=True)[:_NUM_BEST]


def _rows(top: str, part: str) -> list[dict[str, str]]:
  return results.read_rows(os.path.join(top, part), 'robustness.csv')


def _write(top: str, parts: Sequence[str]) -> None:
  """Writes the page."""
  blocks = ['# Robust rules against attacks', _NOTE]
  for part in parts:
    text = tables.markdown(
        _rows(top, part), is_distance=not PARTS[part].files
    )
    blocks.append(
        f'## {part}\n\n{text}\n\n![Rules against attacks]'
        f'({part}/robustness.png)'
    )
  path = os.path.join(top, 'benchmark.md')
  files.write_text(path, '\n\n'.join(blocks) + '\n')
  print(f'\nThe page is {path}.')


if __name__ == '__main__':
  sys.exit(main(sys.argv))
