"""Writes pages of benchmarks: the command and `compare_tuned` tables."""

import os
from typing import Any, Mapping, Sequence

from tff_pers.evaluation import comparison
from tff_pers.evaluation import results
from tff_pers.evaluation import times
from tff_pers.evaluation import tuning
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import method_costs
from tff_pers.experiments import timing

_TIER_COLUMNS = (
    'algo', 'tier', 'parameters', 'macs', 'bytes_up', 'seeds', 'accuracy',
    'accuracy_std',
)


def of_parts(
    benchmark: benchmarks.Benchmark, command: str, scale: str,
    given: Mapping[str, Any], parts: Sequence[str], top: str,
) -> str:
  """Returns the Markdown page of a benchmark with parts.

  `command` is what was typed, without flags, `given` the flags besides
  `--scale`; the folders of the comparisons are in `top`.
  """
  # The data folder differs between machines.
  shown = dict(given, data_dir='DATA') if 'data_dir' in given else given
  texts = _heading(benchmark, command, scale, shown) + [benchmark.note]
  for name in parts:
    folder, part = os.path.join(top, name), benchmark.parts[name]
    with open(os.path.join(folder, 'summary.md'), encoding='utf-8') as file:
      texts += [f'## {part.title}', file.read().strip()]
    tiers = tiers_with_costs(folder)
    if tiers:
      texts.append(results.markdown(list(tiers[0]), tiers))
    if part.published is not None:
      texts += beside(part.published, scale, folder)
    texts.append(f'![Accuracy and loss against rounds]({name}/curves.png)')
  return '\n\n'.join(texts) + '\n'


def of_times(
    benchmark: benchmarks.Benchmark, command: str, scale: str,
    given: Mapping[str, Any], chosen: Mapping[str, Any], top: str,
) -> str:
  """Returns the Markdown page of one comparison with virtual times.

  It is in the folder `top`; `chosen` are all flags passed to `compare_tuned`,
  the rest is as in `of_parts`.
  """
  summary = results.read_rows(top, 'summary.csv')
  # The data folder differs between machines.
  given, chosen = (dict(own, data_dir='DATA') for own in (given, chosen))
  return '\n\n'.join([
      *_heading(benchmark, command, scale, given),
      'Settings: ' + ' '.join(f'`{word}`' for word in flags.as_typed(chosen))
      + f'. {benchmark.note}',
      '## Virtual time until an accuracy',
      results.markdown(times.COLUMNS, [
          _cells(row, ('target', times.TIME, f'{times.TIME}_std'))
          for row in results.read_rows(top, timing.CSV)
      ]),
      '## After all messages',
      tuning.markdown(list(summary[0]), [
          _cells(row, [n for n in row if n.endswith(('_mean', '_std'))])
          for row in summary
      ]),
  ]) + '\n'


def _heading(
    benchmark: benchmarks.Benchmark, command: str, scale: str,
    given: Mapping[str, Any],
) -> list[str]:
  """Returns the first paragraphs: title and command."""
  words = [command, f'--scale={scale}', *flags.as_typed(given)]
  return [f'# {benchmark.title}', f'    {" ".join(words)}']


def _cells(
    row: Mapping[str, str], numbers: Sequence[str]
) -> dict[str, Any]:
  """Returns the cells of a row, some as numbers; None for empty cells."""
  def read(name, text):
    return float(text) if text and name in numbers else text or None
  return {name: read(name, text) for name, text in row.items()}


def tiers_with_costs(folder: str) -> list[dict[str, Any]]:
  """Returns the rows of `comparison.tier_summary` with costs per tier."""
  summary = _tiers(folder)
  own = {row['algo'] for row in summary}
  found = {}
  for path in results.find_runs(folder):
    rows = results.read_rows(path, results.TIERS)
    name = rows[0]['algo'] if rows else ''
    if name in own and name not in found:
      found[name] = {
          row['tier']: row
          for row in method_costs.of_run(results.read_run(path))
      }
  return [
      {name: {**found[row['algo']][row['tier']], **row}[name]
       for name in _TIER_COLUMNS}
      for row in summary
  ]


def beside(
    paper: benchmarks.Published, scale: str, folder: str
) -> list[str]:
  """Returns our numbers beside a paper's, and how settings differ."""
  differs = paper.differs[scale]
  rows = [
      dict(
          algo=algo, here=value, published=paper.of(algo),
          setting=f'reduced: {differs}' if differs else 'equal',
      )
      for algo, value in _measured(paper.measure, folder).items()
      if paper.of(algo) is not None
  ]
  if not rows:
    return []
  return [
      f'Beside {paper.source}; its setting: {paper.setting}. Both are'
      f' {benchmarks.MEASURES[paper.measure]}.',
      results.markdown(list(rows[0]), rows),
  ]


def _tiers(folder: str) -> list[dict[str, Any]]:
  """Returns the rows of `comparison.tier_summary` of a comparison."""
  return comparison.tier_summary(results.read_rows(folder, results.TIERS))


def _measured(measure: str, folder: str) -> dict[str, float]:
  """Returns our values by variant, for one of `benchmarks.MEASURES`."""
  if measure == 'largest':
    found: dict[str, float] = {}
    for row in _tiers(folder):
      # The first tier is the largest.
      found.setdefault(row['algo'], row['accuracy'])
    return found
  column, factor = dict(
      clients=('accuracy_mean', 1.0), examples=('pooled_accuracy_mean', 1.0),
      half_loss=('loss_mean', 0.5),
  )[measure]
  return {
      row['algo']: factor * float(row[column])
      for row in results.read_rows(folder, 'summary.csv') if row[column]
  }
