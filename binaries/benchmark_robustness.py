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
from tff_pers.experiments import subprocess_pool

_FILE = benchmarks.read_settings(str(
    pathlib.Path(__file__).parent / 'benchmarks/settings/robustness.yaml'
))
PARTS = _FILE.settings
_NUM_BEST, _SEEDS = 4, '0,1,2'


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program(
      'benchmark_robustness', _FILE.help, flag_table, _benchmark, argv
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
    best = tables.best_rules([_rows(top, part) for part in images], _NUM_BEST)
    _make_tables(images, given, top, rules=','.join(best), seeds=_SEEDS)
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
  jobs = given['jobs'] or subprocess_pool.num_cores()
  codes = subprocess_pool.run(programs, min(jobs, len(parts)))
  for part, code in codes.items():
    if code:
      raise flags.Failure(f'The table {part} ended with exit code {code}.')


def _rows(top: str, part: str) -> list[dict[str, str]]:
  return results.read_rows(os.path.join(top, part), 'robustness.csv')


def _write(top: str, parts: Sequence[str]) -> None:
  """Writes the page."""
  blocks = ['# Robust rules against attacks', _FILE.note]
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
