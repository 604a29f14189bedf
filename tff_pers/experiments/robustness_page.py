"""Compares robust rules under attacks, on generated systems and on MNIST.

    python -m binaries.benchmark_robustness --data_dir=DATA

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025 (Algorithm 5).
Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing
    Karimireddy, He, Jaggi. ICLR 2022 (MNIST).
"""

import os
import traceback
from typing import Any, Mapping, Sequence

from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.evaluation import robustness as tables
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import robustness_table
from tff_pers.experiments import worker_pool

_FILE = benchmarks.read_settings(
    str(benchmarks.FOLDER / 'settings/robustness.yaml')
)
_NUM_BEST, _SEEDS = 4, '0,1,2'


def _run(given: dict[str, Any]) -> None:
  settings = _FILE.settings
  parts = flags.chosen('parts', given['parts'], list(settings))
  images = [part for part in parts if settings[part].files]
  if images and not given['data_dir']:
    raise flags.UsageError(
        f'`--data_dir` must be the folder of MNIST for {images[0]}, found none.'
    )
  top = flags.output_dir(given, 'benchmark_robustness')
  _make_tables({p: settings[p] for p in parts}, given, top)
  if len(images) == 2:
    best = tables.best_rules([_rows(top, part) for part in images], _NUM_BEST)
    _make_tables(
        {p: settings[p] for p in images}, given, top, rules=','.join(best),
        seeds=_SEEDS,
    )
  blocks = ['# Robust rules against attacks', _FILE.note]
  for part in parts:
    text = tables.markdown(
        _rows(top, part), is_distance=not settings[part].files
    )
    blocks.append(
        f'## {part}\n\n{text}\n\n![Rules against attacks]'
        f'({part}/robustness.png)'
    )
  path = os.path.join(top, 'benchmark.md')
  files.write_text(path, '\n\n'.join(blocks) + '\n')
  print(f'\nThe page is {path}.')


def _make_tables(
    settings: Mapping[str, benchmarks.Setting], given: Mapping[str, Any],
    top: str, **changes: str
) -> None:
  """Makes tables, or adds cells to existing ones."""
  programs = {}
  for part, setting in settings.items():
    asked = {**setting.flags, 'output_dir': os.path.join(top, part), **changes}
    if setting.files:
      asked['data_dir'] = given['data_dir']
    if given['rounds']:
      asked['rounds'] = given['rounds']
    programs[part] = ['robustness', *flags.as_words(asked)]
  jobs = given['jobs'] or len(os.sched_getaffinity(0))
  with worker_pool.WorkerPool(min(jobs, len(programs))) as pool:
    codes = pool.map(_robustness, [(words,) for words in programs.values()])
  for part, code in zip(programs, codes):
    if code:
      # 2: bad flags, or another process that makes the table.
      kind = flags.UsageError if code == 2 else flags.Failure
      raise kind(f'The table {part} ended with exit code {code}.')


def _robustness(argv: Sequence[str]) -> int:
  """Makes a table; child processes find this function by its name.

  One that fails leaves the others alone, Ctrl-C ends them all.
  """
  try:
    code = robustness_table.main(argv)
  except Exception:  # pylint: disable=broad-except
    traceback.print_exc()
    return 1
  if code == flags.INTERRUPTED:
    raise KeyboardInterrupt
  return code


def _rows(top: str, part: str) -> list[dict[str, str]]:
  return results.read_rows(os.path.join(top, part), 'robustness.csv')


main = flags.Program(
    'benchmark_robustness', _FILE.help, _run,
    flags.own_flag('parts', ','.join(_FILE.settings), 'Tables to make.'),
    flags.own_flag('data_dir', '', 'Folder of MNIST.'),
    flags.own_flag(
        'rounds', 0, 'Rounds of all tables; 0: those listed above.', minimum=0
    ),
    flags.own_flag(
        'jobs', 0, 'Tables made in parallel; 0: one per core.', minimum=0
    ),
    flags.own_flag('output_dir', '', 'Folder of the results.'),
    resumes=True,
)
