"""Runs a benchmark: the comparisons that a file of benchmarks/ describes.

    python -m binaries.benchmark NAME [--scale=...] [--parts=...]
        [--flag=value ...]

Runs the comparisons of a benchmark, each with compare_tuned, and writes a page
of their tables. NAME --help says more; a benchmark is a file of
binaries/benchmarks/:
"""

import os
import pathlib
from typing import Any, Mapping, Sequence

from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.data import tasks
from tff_pers.evaluation import comparison
from tff_pers.evaluation import grids
from tff_pers.evaluation import results
from tff_pers.evaluation import times
from tff_pers.evaluation import tuning
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import method_costs
from tff_pers.experiments import startup
from tff_pers.experiments import timing
from tff_pers.experiments import tuned_sweep

# Values of `--algos` that stand for several methods.
_TABLE, _ALL = 'table', 'all'
# They apply messages as they arrive, which needs other flags.
_ASYNCHRONOUS = ('async_ffgg', 'fedasync', 'fedbuff')
_TIER_COLUMNS = (
    'algo', 'tier', 'parameters', 'macs', 'bytes_up', 'seeds', 'accuracy',
    'accuracy_std',
)


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code.

  Args:
    argv: `benchmark NAME --flag=value ...`, or `benchmark_NAME --flag=value`
      from the scripts of that name.
  """
  program = pathlib.Path(argv[0]).name.removesuffix('.py').rpartition('.')[2]
  rest = list(argv)
  if program.startswith('benchmark_'):
    name = program.partition('_')[2]
  else:
    is_named = len(argv) > 1 and not argv[1].startswith('-')
    name = rest.pop(1) if is_named else ''
    program = f'benchmark {name}'.strip()

  def run(given):
    if startup.wants_help(given) and not name:
      print(__doc__ + '\n'.join(f'  {n:17}{read(n).title}' for n in names()))
      return 0
    return _run(program, name, read(name), given)

  return flags.run(program, run, rest)


def names() -> list[str]:
  """Returns the names of all benchmarks."""
  return sorted(path.stem for path in benchmarks.FOLDER.glob('*.yaml'))


def read(name: str) -> benchmarks.Benchmark:
  """Returns a benchmark.

  Raises:
    flags.UsageError: If there is none of that name, or its file is malformed.
  """
  if name not in names():
    raise flags.UsageError(
        f'The benchmark must be one of {", ".join(names())}, found'
        f' {name or "none"}. Tip: python -m binaries.benchmark --help.'
    )
  with flags.usage_errors():
    return benchmarks.read(str(benchmarks.FOLDER / f'{name}.yaml'))


def _run(
    program: str, name: str, benchmark: benchmarks.Benchmark,
    argv: Sequence[str],
) -> int:
  """Runs a benchmark; returns the exit code.

  `program` is what was called, `benchmark NAME` or `benchmark_NAME`; `argv` is
  the command line without NAME.
  """
  handed = tuned_sweep.main.flag_table()
  table = _flag_table(benchmark, handed)
  if startup.wants_help(argv):
    # The help of benchmark_NAME shows that script's command.
    text = benchmark.help.replace(f'benchmark {name}', program)
    print(flags.help_text(text, table, argv))
    return 0
  given = flags.parse(argv, table)
  scale = given.pop('scale', next(iter(benchmark.scales)))
  parts = list(benchmark.parts)
  if 'parts' in given:
    parts = flags.chosen('parts', given.pop('parts'), parts)
  top = flags.output_dir(given, f'benchmark_{name}_{scale}')
  given.pop('output_dir', None)
  command, worst = f'python -m binaries.{program}', 0
  for part in parts or ['']:
    own = flags_of(benchmark, scale, part, given, handed)
    folder = os.path.join(top, part) if part else top
    code = tuned_sweep.main([
        'compare_tuned', *flags.as_words(own), f'--output_dir={folder}'
    ])
    # Without a table, what ended the comparison has been printed.
    summary = os.path.join(folder, 'summary.md')
    if code > 1 or code and not os.path.exists(summary):
      return code
    worst = max(worst, code)
  if parts:
    text = of_parts(
        benchmark, command, scale, given, parts, top
    )
  elif os.path.exists(os.path.join(top, timing.CSV)):
    text = of_times(benchmark, command, scale, given, own, top)
  else:  # All runs diverged.
    return worst
  path = os.path.join(top, benchmark.page)
  files.write_text(path, text)
  print(f'\n{text}\nThe page is {path}.')
  return worst


def _flag_table(
    benchmark: benchmarks.Benchmark, handed: Mapping[str, flags.Flag]
) -> dict[str, flags.Flag]:
  """Returns the flags of a benchmark; `handed` are those of compare_tuned."""
  scales, has_parts = tuple(benchmark.scales), bool(benchmark.parts)
  what = (
      'models, rounds and clients' if has_parts else 'model, rounds and writers'
  )
  own = [flags.own_flag('scale', scales[0], f'Size: {what}.', choices=scales)]
  if has_parts:
    own += [
        flags.own_flag(
            'parts', ','.join(benchmark.parts), 'Comparisons to run.'
        ),
        flags.own_flag(
            'algos', _TABLE, 'Methods: `table`, the list of the benchmark;'
            ' `all`, all that run on the task; or a list, such as'
            ' perm,fedavg[server_learning_rate=0.5].',
        ),
    ]
  table = dict(own)
  return table | {k: v for k, v in handed.items() if k not in table}


def flags_of(
    benchmark: benchmarks.Benchmark, scale: str, part: str,
    given: Mapping[str, Any], table: Mapping[str, flags.Flag],
) -> dict[str, Any]:
  """Returns the flags of `compare_tuned` of one comparison.

  The part is '' for a benchmark without parts. Flags that were given override
  those of the benchmark; the table has all flags of `compare_tuned`.
  """
  if not part:
    return {**benchmark.scales[scale], **given}
  own: dict[str, Any] = benchmark.flags(scale, part)
  named = {_TABLE: own['algos']}
  own.update(given)
  if own['algos'] == _ALL:
    own['algos'] = all_algos(own['task'])
  own['algos'] = named.get(own['algos'], own['algos'])
  if benchmark.parts[part].embedded:
    own.pop('data_dir', None)
  compared = {
      brackets.parse(algo)[0] for algo in brackets.split_list(own['algos'])
  }
  # The scale has grids and flags of all methods; those of methods that are not
  # compared would be refused.
  if 'grid' not in given:
    own['grid'] = grids.restricted(own['grid'], compared)
  return {
      name: value for name, value in own.items()
      if name not in table or table[name].kind != 'method'
      or table[name].owner in compared
  }


def all_algos(task: str) -> str:
  """Returns all methods that run on a task with default flags.

  Methods without a `learning_rate` are left out because the grid has no value
  for them (`local_update`, whose members are methods themselves).
  """
  traits = tasks.get(task).declares.traits
  return ','.join(
      name for name in methods.names()
      if name not in _ASYNCHRONOUS
      and 'learning_rate' in hp.specs(methods.get(name).hyperparameters)
      and methods.fit(methods.get(name), traits) == 'yes'
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
      new_clients=('new_accuracy_mean', 1.0),
      half_loss=('loss_mean', 0.5),
  )[measure]
  return {
      row['algo']: factor * float(row[column])
      for row in results.read_rows(folder, 'summary.csv') if row[column]
  }
