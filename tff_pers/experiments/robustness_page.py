"""Makes the tables of `benchmark_robustness`, and a page of them."""

import os
from typing import Any, Callable, Mapping, Sequence

from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.evaluation import robustness as tables
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import worker_pool

_NUM_BEST, _SEEDS = 4, '0,1,2'


def run(
    given: dict[str, Any], described: benchmarks.Settings,
    robustness: Callable[[Sequence[str]], int],
) -> None:
  """Runs `binaries.benchmark_robustness`, see `flags.Program`.

  `robustness` is a function of a module, which calls
  `binaries.robustness.main`.

  Raises:
    flags.UsageError: If MNIST is needed and missing.
  """
  settings = described.settings
  parts = flags.chosen('parts', given['parts'], list(settings))
  images = [part for part in parts if settings[part].files]
  if images and not given['data_dir']:
    raise flags.UsageError(
        f'`--data_dir` must be the folder of MNIST for {images[0]}, found none.'
    )
  top = flags.output_dir(given, 'benchmark_robustness')
  _make_tables({p: settings[p] for p in parts}, given, top, robustness)
  if len(images) == 2:
    best = tables.best_rules([_rows(top, part) for part in images], _NUM_BEST)
    _make_tables(
        {p: settings[p] for p in images}, given, top, robustness,
        rules=','.join(best), seeds=_SEEDS,
    )
  blocks = ['# Robust rules against attacks', described.note]
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
    top: str, robustness: Callable[[Sequence[str]], int], **changes: str
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
    codes = pool.map(robustness, [(words,) for words in programs.values()])
  for part, code in zip(programs, codes):
    if code:
      raise flags.Failure(f'The table {part} ended with exit code {code}.')


def _rows(top: str, part: str) -> list[dict[str, str]]:
  return results.read_rows(os.path.join(top, part), 'robustness.csv')
