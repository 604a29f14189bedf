"""Benchmarks of several comparisons, each of them made by `compare_tuned`."""

import os
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from binaries import compare_tuned
from binaries import published as published_lib
from binaries import real_data
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import method_costs


class Benchmark(NamedTuple):
  """What a benchmark program is.

  Attributes:
    name: The program's name.
    summary: Its help.
    title: Headline of its page.
    note: What the page says about the numbers.
    parts: Flags of `compare_tuned` by name of the comparison.
    titles: Headlines by name of the comparison.
    scales: Flags by value of `--scale`, the default first; a comparison's own
      ones win, and those of methods that it does not have are left out.
    file: The page.
    embedded: Comparisons on data of the project, which take no `--data_dir`.
    sizes: Flags of a comparison at one scale, by `scale/comparison`; they win
      over both.
    published: What papers have on the task, by name of the comparison.
    chooses_algos: Whether `--algos` names other methods than the table's.
  """

  name: str
  summary: str
  title: str
  note: str
  parts: Mapping[str, Mapping[str, Any]]
  titles: Mapping[str, str]
  scales: Mapping[str, Mapping[str, Any]]
  file: str
  embedded: Sequence[str] = ()
  sizes: Mapping[str, Mapping[str, Any]] = {}
  published: Mapping[str, published_lib.Published] = {}
  chooses_algos: bool = False


def for_methods(algos: Iterable[str], **options: Any) -> dict[str, Any]:
  """Returns the flags that give several methods the same options.

  Args:
    algos: Names of the methods.
    **options: Values by name of the hyperparameter.
  """
  return {
      f'{algo}_{name}': value
      for algo in algos for name, value in options.items()
  }


def main(benchmark: Benchmark, argv: Sequence[str]) -> int:
  """Runs the benchmark on `argv`; returns the exit code."""
  return flags.run(benchmark.name, lambda given: _run(benchmark, given), argv)


def _run(benchmark: Benchmark, argv: Sequence[str]) -> int:
  scales, names = list(benchmark.scales), list(benchmark.parts)
  table = {
      **dict([
          flags.own_flag(
              'scale', scales[0], 'Models, rounds and clients.',
              choices=tuple(scales),
          ),
          flags.own_flag(
              'parts', ','.join(names), 'Which of the comparisons.'
          ),
          *([flags.own_flag(
              'algos', real_data.TABLE, 'Methods: `table`, those of the table;'
              ' `all`, all that run on the task; or a list, e.g.'
              ' perm,fedavg[server_learning_rate=0.5].',
          )] if benchmark.chooses_algos else []),
      ]),
      **{name: flag for name, flag in compare_tuned.flag_table().items()
         if name not in ('algos', 'grid')},
  }
  if flags.wants_help(argv):
    print(flags.help_text(benchmark.summary, table, argv))
    return 0
  given = flags.parse(argv, table)
  scale = given.pop('scale', scales[0])
  parts = _parts(given.pop('parts', ','.join(names)), names)
  top = given.pop('output_dir', '') or flags.resolve_path(
      f'runs/{benchmark.name}_{scale}'
  )
  worst = 0
  for part in parts:
    own = _flags_of(benchmark, scale, part, given, table)
    code = compare_tuned.main([
        'compare_tuned', *(f'--{name}={value}' for name, value in own.items()),
        f'--output_dir={os.path.join(top, part)}',
    ])
    # 2: bad flags or data, and 130: stopped, leave no table.
    if code > 1:
      return code
    worst = max(worst, code)
  text = page(benchmark, scale, given, parts, top)
  path = os.path.join(top, benchmark.file)
  files.write_text(path, text)
  print(f'\n{text}\nThe page is {path}.')
  return worst


def _flags_of(
    benchmark: Benchmark, scale: str, part: str, given: Mapping[str, Any],
    table: Mapping[str, flags.Flag],
) -> dict[str, Any]:
  """Returns the flags of one comparison."""
  own = {
      **benchmark.scales[scale], **benchmark.parts[part],
      **benchmark.sizes.get(f'{scale}/{part}', {}),
  }
  named = {real_data.TABLE: own['algos']}
  own.update(given)
  if own['algos'] == real_data.ALL:
    own['algos'] = real_data.all_algos(own['task'])
  own['algos'] = named.get(own['algos'], own['algos'])
  if part in benchmark.embedded:
    own.pop('data_dir', None)
  methods = {
      brackets.parse(algo)[0] for algo in brackets.split_list(own['algos'])
  }
  # The scale has flags of all methods, and a method that is not compared has
  # none.
  return {
      name: value for name, value in own.items()
      if name not in table or table[name].kind != 'method'
      or table[name].owner in methods
  }


def _parts(text: str, names: Sequence[str]) -> list[str]:
  chosen = list(dict.fromkeys(text.split(',')))
  if not set(chosen) <= set(names):
    raise flags.UsageError(
        f'`--parts` must be of {", ".join(names)}, found {text!r}.'
    )
  return chosen


def tiers_with_costs(folder: str) -> list[dict[str, Any]]:
  """Returns the rows of `comparison.tier_summary`, with what a tier costs.

  Args:
    folder: What compare_tuned wrote.
  """
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
      dict(
          algo=row['algo'], tier=row['tier'], parameters=row['parameters'],
          macs=found[row['algo']][row['tier']]['macs'],
          bytes_up=found[row['algo']][row['tier']]['bytes_up'],
          seeds=row['seeds'], accuracy=row['accuracy'],
          accuracy_std=row['accuracy_std'],
      )
      for row in summary
  ]


def page(
    benchmark: Benchmark, scale: str, given: Mapping[str, Any],
    parts: Sequence[str], top: str,
) -> str:
  """Returns the page: what was run, and tables per part, in Markdown.

  Args:
    benchmark: The benchmark.
    scale: Value of `--scale`.
    given: The other flags that were given, by name.
    parts: Names of the comparisons.
    top: Where their folders are.
  """
  # The folder of the data is another one on every machine.
  shown = dict(given, data_dir='DATA') if 'data_dir' in given else given
  command = [f'python -m binaries.{benchmark.name}', f'--scale={scale}']
  texts = [
      f'# {benchmark.title}',
      f'    {" ".join([*command, *flags.as_typed(shown)])}',
      benchmark.note,
  ]
  for part in parts:
    folder = os.path.join(top, part)
    with open(os.path.join(folder, 'summary.md'), encoding='utf-8') as file:
      texts += [f'## {benchmark.titles[part]}', file.read().strip()]
    tiers = tiers_with_costs(folder)
    if tiers:
      texts.append(results.markdown(list(tiers[0]), tiers))
    if part in benchmark.published:
      texts += _beside(benchmark.published[part], scale, folder)
    texts.append(f'![Accuracy and loss against rounds]({part}/curves.png)')
  return '\n\n'.join(texts) + '\n'


def _beside(
    paper: published_lib.Published, scale: str, folder: str
) -> list[str]:
  """Returns our accuracies beside those of a paper, and how settings differ."""
  reduced = paper.reduced[scale]
  rows = [
      dict(
          algo=algo, here=accuracy, published=paper.of(algo),
          setting=f'reduced: {reduced}' if reduced else 'equal',
      )
      for algo, accuracy in _measured(paper.measure, folder).items()
      if paper.of(algo) is not None
  ]
  if not rows:
    return []
  return [
      f'Beside {paper.source}; its setting: {paper.setting}. Both are'
      f' {published_lib.MEASURES[paper.measure]}.',
      results.markdown(list(rows[0]), rows),
  ]


def _tiers(folder: str) -> list[dict[str, Any]]:
  """Returns the rows of `comparison.tier_summary` of a comparison."""
  return comparison.tier_summary(results.read_rows(folder, results.TIERS))


def _measured(measure: str, folder: str) -> dict[str, float]:
  """Returns our accuracies by variant, of a kind of `published.MEASURES`."""
  if measure == 'largest':
    found: dict[str, float] = {}
    for row in _tiers(folder):
      # The first is the largest.
      found.setdefault(row['algo'], row['accuracy'])
    return found
  column = dict(clients='accuracy_mean', examples='pooled_accuracy_mean')
  return {
      row['algo']: float(row[column[measure]])
      for row in results.read_rows(folder, 'summary.csv')
      if row[column[measure]]
  }
