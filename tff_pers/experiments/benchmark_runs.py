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
from tff_pers.experiments import benchmark_pages
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import timing
from tff_pers.experiments import tuned_sweep

# Values of `--algos` that stand for several methods.
_TABLE, _ALL = 'table', 'all'
# They apply messages as they arrive, which needs other flags.
_ASYNCHRONOUS = ('async_ffgg', 'fedasync', 'fedbuff')


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
    if flags.wants_help(given) and not name:
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
  if flags.wants_help(argv):
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
    # 2 (bad flags or data) and 130 (interrupted) leave no table.
    if code > 1:
      return code
    worst = max(worst, code)
  if parts:
    text = benchmark_pages.of_parts(
        benchmark, command, scale, given, parts, top
    )
  elif os.path.exists(os.path.join(top, timing.CSV)):
    text = benchmark_pages.of_times(benchmark, command, scale, given, own, top)
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
  scales, what = tuple(benchmark.scales), 'model, rounds and writers'
  own, left_out = [], set()
  if benchmark.parts:
    what, left_out = 'models, rounds and clients', {'algos', 'grid'}
    own.append(flags.own_flag(
        'parts', ','.join(benchmark.parts), 'Comparisons to run.'
    ))
  if benchmark.chooses_algos:
    own.append(flags.own_flag(
        'algos', _TABLE, 'Methods: `table`, the list of the benchmark; `all`,'
        ' all that run on the task; or a list, such as'
        ' perm,fedavg[server_learning_rate=0.5].',
    ))
  own.insert(0, flags.own_flag(
      'scale', scales[0], f'Size: {what}.', choices=scales
  ))
  return {
      **dict(own), **{k: v for k, v in handed.items() if k not in left_out}
  }


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
  # The scale has flags of all methods; those of methods that are not compared
  # would be refused.
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
