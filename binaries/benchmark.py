"""Runs a benchmark: the comparisons that a file of benchmarks/ describes.

    python -m binaries.benchmark emnist --data_dir=DATA
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import pathlib
import sys
from typing import Any, Mapping, Sequence

from binaries import compare_tuned
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.data import tasks
from tff_pers.experiments import benchmark_pages
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import timing

SUMMARY = """\
python -m binaries.benchmark NAME [--scale=...] [--parts=...] [--flag=value ...]

Runs the comparisons of a benchmark, each with compare_tuned, and writes a page
of their tables. NAME --help says more; a benchmark is a file of
binaries/benchmarks/:
"""

_FOLDER = pathlib.Path(__file__).parent / 'benchmarks'
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
  return flags.run(program, lambda given: _run(program, name, given), rest)


def names() -> list[str]:
  """Returns the names of all benchmarks."""
  return sorted(path.stem for path in _FOLDER.glob('*.yaml'))


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
  try:
    return benchmarks.read(str(_FOLDER / f'{name}.yaml'))
  except ValueError as error:
    raise flags.UsageError(str(error)) from error


def _run(program: str, name: str, argv: Sequence[str]) -> int:
  if flags.wants_help(argv) and not name:
    titles = [f'  {own:17}{read(own).title}' for own in names()]
    print('\n'.join([SUMMARY, *titles]))
    return 0
  benchmark = read(name)
  table = _flag_table(benchmark)
  if flags.wants_help(argv):
    # The help of benchmark_NAME shows that script's command.
    text = benchmark.help.replace(f'benchmark {name}', program)
    print(flags.help_text(text, table, argv))
    return 0
  given = flags.parse(argv, table)
  scale = given.pop('scale', next(iter(benchmark.scales)))
  all_parts = ','.join(benchmark.parts)
  parts = _parts(given.pop('parts', all_parts), list(benchmark.parts))
  top = given.pop('output_dir', '') or flags.resolve_path(
      f'runs/benchmark_{name}_{scale}'
  )
  command, worst = f'python -m binaries.{program}', 0
  for part in parts or ['']:
    own = flags_of(benchmark, scale, part, given)
    folder = os.path.join(top, part) if part else top
    code = compare_tuned.main([
        'compare_tuned', *(f'--{flag}={value}' for flag, value in own.items()),
        f'--output_dir={folder}',
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


def _flag_table(benchmark: benchmarks.Benchmark) -> dict[str, flags.Flag]:
  """Returns the flags of a benchmark."""
  scales = tuple(benchmark.scales)
  handed = compare_tuned.flag_table()
  about = 'Size: models, rounds and clients.'
  own = []
  if benchmark.parts:
    del handed['algos'], handed['grid']
    own.append(flags.own_flag(
        'parts', ','.join(benchmark.parts), 'Comparisons to run.'
    ))
  else:
    about = 'Size: model, rounds and writers.'
  if benchmark.chooses_algos:
    own.append(flags.own_flag(
        'algos', _TABLE, 'Methods: `table`, the list of the benchmark; `all`,'
        ' all that run on the task; or a list, such as'
        ' perm,fedavg[server_learning_rate=0.5].',
    ))
  own.insert(0, flags.own_flag('scale', scales[0], about, choices=scales))
  return {**dict(own), **handed}


def flags_of(
    benchmark: benchmarks.Benchmark, scale: str, part: str,
    given: Mapping[str, Any],
) -> dict[str, Any]:
  """Returns the flags of `compare_tuned` of one comparison.

  Args:
    benchmark: The benchmark.
    scale: Value of `--scale`.
    part: The comparison; '' for a benchmark without parts.
    given: The other flags that were given; they override the benchmark's.
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
  table = compare_tuned.flag_table()
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

  Args:
    task: Value of `--task`.
  """
  traits = tasks.get(task).declares.traits
  return ','.join(
      name for name in methods.names()
      if name not in _ASYNCHRONOUS
      and 'learning_rate' in hp.specs(methods.get(name).hyperparameters)
      and methods.fit(methods.get(name), traits) == 'yes'
  )


def _parts(text: str, known: Sequence[str]) -> list[str]:
  """Returns the parts of `--parts`, each once."""
  if not known:
    return []
  chosen = list(dict.fromkeys(text.split(',')))
  if not set(chosen) <= set(known):
    raise flags.UsageError(
        f'`--parts` must be of {", ".join(known)}, found {text!r}.'
    )
  return chosen


if __name__ == '__main__':
  sys.exit(main(sys.argv))
