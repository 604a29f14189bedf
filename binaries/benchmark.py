"""Runs a benchmark: the comparisons that a file of benchmarks/ describes.

    python -m binaries.benchmark NAME [--scale=...] [--parts=...]
        [--flag=value ...]

Runs the comparisons of a benchmark, each with compare_tuned, and writes a page
of their tables. NAME --help says more; a benchmark is a file of
binaries/benchmarks/:
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import pathlib
import sys
from typing import Sequence

from binaries import compare_tuned
from tff_pers.experiments import benchmark_runs
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags

_FOLDER = pathlib.Path(__file__).parent / 'benchmarks'


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
    return benchmark_runs.run(
        program, name, read(name), given, compare_tuned.main
    )

  return flags.run(program, run, rest)


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
  with flags.usage_errors():
    return benchmarks.read(str(_FOLDER / f'{name}.yaml'))


if __name__ == '__main__':
  sys.exit(main(sys.argv))
