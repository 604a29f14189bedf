"""Runs many experiments in one folder: variants times seeds.

    from tff_pers.experiments import sweep

    points = [(f'fedavg[learning_rate={rate}]', 0) for rate in (0.03, 0.3)]
    runs = sweep.run(points, 'runs/rates', task='digits', rounds=20)

A point is a pair (variant, seed); its run is in <folder>/<variant>/seed<seed>.
Finished runs are not repeated, interrupted ones are resumed, and a diverged run
is None. Programs build a `Sweep` from their flags.
"""

import functools
import itertools
import os
import re
import sys
from typing import (
    Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence,
)

import numpy as np

from tff_pers import plugins
from tff_pers.config import hyperparameters as hp
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.experiments import budgets
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import folders
from tff_pers.experiments import kept_runs
from tff_pers.experiments import outputs
from tff_pers.experiments import quiet
from tff_pers.experiments import runner
from tff_pers.experiments import timing
from tff_pers.experiments import worker_pool

# (variant, seed).
Point = tuple[str, int]
# Of programs that choose.
VALIDATION_FLAG = flags.own_flag(
    'validation_fraction', 0.2,
    'Share of each client\'s training examples that is held out as validation'
    ' data, by which values are chosen.', above=0.0, below=1.0,
)


class Place(NamedTuple):
  """Where a run stands among those of a program.

  Attributes:
    number: Its number, from 1.
    of: How many runs there are.
    since: `budgets.now()` when the first of them began; None: the time to go
      cannot be told.
    jobs: How many of them run at the same time.
  """

  number: int
  of: int
  since: Optional[float] = None
  jobs: int = 1

  def headline(self, variant: str, seed: int) -> str:
    """Returns the line before those of the run."""
    left, done = '', self.number - self.jobs
    if self.since is not None and done > 0:
      seconds = (budgets.now() - self.since) / done * (self.of - done)
      left = f', about {budgets.as_text(seconds)} to go'
    return f'\n[{self.number}/{self.of}] {variant}, seed {seed}{left}'


class Sweep:
  """Runs with common flags; a `with` block locks their folder.

  Attributes:
    program: Name of the program, for messages.
    given: Values of the flags that were given.
    folder: Folder of the runs.
  """

  def __init__(self, program: str, given: Mapping[str, Any], folder: str):
    """Keeps the flags.

    Flags of a method apply to all its variants, bracket options override them.
    """
    self.program, self.given, self.folder = program, given, folder
    self._lock: Optional[folders.FolderLock] = None

  def __getstate__(self):
    # Child processes make their own table of flags, and do not get the lock.
    own = {**vars(self), '_lock': None}
    own.pop('_table', None)
    return own

  @functools.cached_property
  def _table(self) -> dict[str, flags.Flag]:
    # This may be a child process, which has not read the command line.
    with flags.usage_errors():
      plugins.import_named(self.given.get('import', ''))
    return flags.all_flags(flags.own_flag('algo', '', 'Variant.'))

  def __enter__(self):
    with flags.usage_errors():
      self._lock = folders.FolderLock(self.folder)
    return self

  def __exit__(self, *error):
    assert self._lock is not None  # `__enter__` has made it.
    self._lock.__exit__(*error)

  def check(self, points: Iterable[Point]) -> None:
    """Builds one experiment per variant and seed without running it.

    Errors should appear before hours of training, not in between.

    Raises:
      flags.UsageError: If an experiment cannot be run, or a method's flag has
        no effect in any of them.
    """
    checked: list[Point] = []
    seen: set[Any] = set()
    for point in points:
      if not seen.issuperset(point):
        checked.append(point)
        seen.update(point)
    # Keep only the flags, because the data of all together may be large.
    found = [
        (experiment.method.name, experiment.config['flags'])
        for experiment in (self.prepare(*point)[0] for point in checked)
    ]
    for name, value in self.given.items():
      if name not in self._table or self._table[name].kind != 'method':
        continue
      owner = self._table[name].owner
      if not any(own[name] == value for algo, own in found if algo == owner):
        raise flags.UsageError(
            f'`--{name}` must be left out because it has no effect in any'
            f' variant of `--algos`, found {value!r}.'
        )

  def compare(
      self, points: Iterable[Point], processes: int,
      targets: Optional[Sequence[float]] = None,
  ) -> tuple[comparison.Runs, str]:
    """Runs all points, and writes their tables and plots.

    Points are begun in this order, see `run_all`. Without targets (see
    `timing.write`) there is no table of times.

    Returns:
      The run of each point, see `run`, and the tables in Markdown.
    """
    points = list(points)
    self.check(points)
    with self:
      runs = self.run_all(
          points, processes=processes, draw=plots.plot_compared_run
      )
      text = write(self.folder, runs)
      if targets is not None:
        text += timing.write(self.folder, runs, targets)
      return runs, text

  def run_all(
      self, points: Iterable[Point], *, processes: int = 1,
      draw: Optional[Callable[[str], Any]] = None,
  ) -> comparison.Runs:
    """Returns the run of each point, see `run`; points are begun in this order.

    For the number of processes, see `worker_pool.number`. `draw` plots the
    results in a run's folder, but only of the first seed, because plots cost as
    much as a small run.
    """
    points = list(points)
    first = points[0][1]
    number = worker_pool.number(processes, len(points))
    # Finished runs take no time, and are not announced.
    new = [
        point for point in points
        if not runner.is_finished(self._seed_folder(*point))
    ]
    since = budgets.now()
    places = {
        point: Place(k, len(new), since, number)
        for k, point in enumerate(new, 1)
    }
    with worker_pool.WorkerPool(number) as pool:
      return dict(zip(points, pool.map(self.run, [
          (variant, seed, draw if seed == first else None,
           places.get((variant, seed)))
          for variant, seed in points
      ])))

  def run(
      self, variant: str, seed: int,
      draw: Optional[Callable[[str], Any]] = None,
      place: Optional[Place] = None,
  ) -> Optional[results.Run]:
    """Runs one point unless it is finished; returns None if it diverged.

    The place is printed first. `draw` is that of `runner.execute`.
    """
    if place:
      print(place.headline(variant, seed), flush=True)
    try:
      return self.execute(variant, seed, draw=draw)
    except runner.Diverged as error:
      print(f'{self.program}: {variant}: {error}', file=sys.stderr)
      return None

  def execute(
      self, variant: str, seed: int, *, within: str = '', **options: Any
  ) -> results.Run:
    """Runs one point unless it is finished; see `prepare` and `runner.execute`.

    Raises:
      Diverged, flags.Failure: See `runner.execute`.
    """
    experiment, folder = self.prepare(variant, seed, within=within)
    kept = self.given.get('trials_dir')
    with kept_runs.shared(experiment, folder, kept) as experiment:
      runner.execute(experiment, folder, quiet=True, **options)
    return results.read_run(folder)

  def prepare(
      self, variant: str, seed: int, *, within: str = ''
  ) -> tuple[experiment_lib.Experiment, str]:
    """Returns the experiment and its folder.

    The folder is seedN in `within`, the folder of all seeds, by default that of
    the variant, below that of all runs.

    Raises:
      flags.UsageError: If it cannot be run, or the folder holds another run.
    """
    folder = self._seed_folder(variant, seed, within)
    experiment = runner.prepare(
        self.flags_of(variant, seed), self._table, folder, resume=True,
        same_flags=True, brackets_win=True,
    )
    return experiment, folder

  def _seed_folder(self, variant: str, seed: int, within: str = '') -> str:
    within = within or experiment_lib.folder_name(variant)
    return os.path.join(self.folder, within, f'seed{seed}')

  def asked(self, variant: str) -> list[str]:
    """Returns the hyperparameters that flags or brackets set, by flag name."""
    algo, options = brackets.parse(variant)
    own = experiment_lib.own_flags(self.given, self._table, 'method', algo)
    # Brackets may also set shared flags.
    return [
        name for name in {**own, **options} if f'{algo}_{name}' in self._table
    ]

  def flags_of(self, variant: str, seed: int) -> dict[str, Any]:
    """Returns the flags of one run."""
    algo = brackets.parse(variant)[0]
    own = {
        name: value for name, value in self.given.items()
        if name in self._table
        and (self._table[name].kind != 'method'
             or self._table[name].owner == algo)
    }
    return {**own, 'algo': variant, 'seed': seed}


def compare(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  """Runs `binaries.compare`, see `flags.Program`."""
  variants, seeds = parse_variants(given['algos']), parse_seeds(given['seeds'])
  targets = timing.parse_targets(given['targets'])
  with flags.usage_errors():
    given = timing.on_one_clock(given, variants)
  sweep = of_flags('compare', given, table, variants)
  runs, text = sweep.compare(
      itertools.product(variants, seeds), given['jobs'], targets
  )
  print(f'{text}\n{outputs.where(sweep.folder)}')
  return int(None in runs.values())


def of_flags(
    program: str, given: Mapping[str, Any], table: Mapping[str, flags.Flag],
    variants: Sequence[str], name: str = '',
) -> Sweep:
  """Returns the sweep that a program's flags describe, with its `--algos`.

  Its folder is runs/<name>_<task>, by default with the program's name, unless
  there is an `--output_dir`.

  Raises:
    flags.UsageError: If a flag belongs to another method or task.
  """
  task = given.get('task', flags.DEFAULTS['task'])
  algos = [brackets.parse(variant)[0] for variant in variants]
  experiment_lib.check_owners(given, table, algos, task)
  folder = flags.output_dir(given, f'{name or program}_{task}')
  return Sweep(program, given, folder)


def run(
    points: Iterable[Point], folder: str, *, processes: int = 1,
    **values: Any
) -> comparison.Runs:
  """Trains all points, and writes the tables and plots of `binaries.compare`.

  Args:
    points: Pairs (variant, seed), with variants such as `perm[lambda=0.1]`.
    folder: Folder of the runs, runs.csv, summary.csv, summary.md and plots.
    processes: Number of parallel runs; 0: min(cores, 2). More than one process
      may import the script again, which must therefore call this function below
      `if __name__ == '__main__':`.
    **values: Flags of `binaries.train` by name, for all runs; without `algo`,
      `seed` and `output_dir`.

  Returns:
    The run of each point (see `evaluation.results.Run`), None if it diverged.

  Raises:
    flags.UsageError: If there are no points, a flag or a variant is bad, or the
      folder holds other runs under these names or is in use.
    flags.Failure: If something other than divergence stops a run. Other runs
      are kept; call again to resume.
  """
  points = _checked_points(points)
  _check_values(values)
  if not _is_integer(processes) or processes < 0:
    raise flags.UsageError(
        f'`processes` must be an integer >= 0, found {processes!r}.'
    )
  with flags.usage_errors():
    # Imported modules may define flags.
    plugins.import_named(str(values.get('import', '')))
  table = flags.all_flags(without=('seed',))
  with quiet.scope():
    given = flags.parse(['sweep', *flags.as_words(values)], table)
    given['output_dir'] = os.path.abspath(folder)
    sweep = of_flags(
        'sweep', given, table, [variant for variant, _ in points]
    )
    return sweep.compare(points, processes)[0]


def _checked_points(points: Iterable[Point]) -> list[Point]:
  """Returns the points, checked to have distinct folders."""
  found: Any = list(points) if isinstance(points, Iterable) else [points]
  for point in found:
    if (
        not isinstance(point, (tuple, list)) or len(point) != 2
        or not isinstance(point[0], str) or not _is_integer(point[1])
        or not 0 <= point[1] <= hp.LARGEST_SEED
    ):
      raise flags.UsageError(
          '`points` must be pairs of a variant and a seed, an integer >= 0 and'
          f' <= {hp.LARGEST_SEED}, such as (\'perm[lambda=0.1]\', 0), found'
          f' {point!r}.'
      )
  with flags.usage_errors():
    for variant, _ in found:
      brackets.parse(variant)
  # NumPy's integers cannot be written to config.json.
  found = [(variant, int(seed)) for variant, seed in found]
  places = {
      (experiment_lib.folder_name(variant), seed) for variant, seed in found
  }
  if not found or len(places) < len(found):
    raise flags.UsageError(
        f'`points` must be distinct, at least one, found {found}.'
    )
  return found


def _is_integer(value: Any) -> bool:
  return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check_values(values: Mapping[str, Any]) -> None:
  """Refuses flags that points and folder determine, and bad types."""
  for name, value in values.items():
    if name in ('algo', 'seed', 'output_dir'):
      raise flags.UsageError(
          f'`--{name}` must be left out because `points` and `folder` set it,'
          f' found {value!r}.'
      )
    if not isinstance(value, (str, int, float, np.number, os.PathLike)):
      raise flags.UsageError(
          f'`--{name}` must be a text, a number, True or False, found'
          f' {value!r}. Tip: write lists as texts such as 0,1,2; leave out'
          ' flags that keep their default.'
      )


def write(
    folder: str, runs: comparison.Runs,
    columns: Optional[Sequence[str]] = None,
    rows: Optional[Sequence[Mapping[str, Any]]] = None,
    as_text: Callable[..., str] = results.markdown,
) -> str:
  """Writes the tables and plots of runs; returns the summary in Markdown.

  Rows of the summary are those of `comparison.summary_rows` unless others are
  given with their columns; `as_text` makes Markdown of columns and rows.
  """
  if columns is None:
    columns = [*comparison.SUMMARY_COLUMNS, *comparison.more_columns(runs)]
  rows = comparison.summary_rows(runs) if rows is None else rows
  results.write_csv(
      os.path.join(folder, 'runs.csv'), comparison.RUN_COLUMNS,
      comparison.run_rows(runs),
  )
  results.write_csv(os.path.join(folder, 'summary.csv'), columns, rows)
  comparison.write_tiers(folder, runs)
  text = as_text(columns, rows) + comparison.sample_sentence(runs)
  files.write_text(os.path.join(folder, 'summary.md'), text + '\n')
  finished = [run for run in runs.values() if run is not None]
  if finished:
    plots.plot_runs(finished, folder)
  return text


def jobs_flag(default: int) -> tuple[str, flags.Flag]:
  """Returns --jobs of programs that run several experiments."""
  return flags.own_flag(
      'jobs', default, 'Number of processes that train in parallel; 0:'
      ' min(cores, 2).', minimum=0,
  )


def parse_variants(text: str) -> list[str]:
  """Returns the variants of `--algos`.

  Raises:
    flags.UsageError: If there are none, or one is repeated.
  """
  with flags.usage_errors():
    variants = brackets.split_list(text)
    for variant in variants:
      brackets.parse(variant)
  names = [experiment_lib.folder_name(variant) for variant in variants]
  if not names or len(set(names)) < len(names):
    raise flags.UsageError(
        '`--algos` must be one or more distinct variants, found'
        f' {", ".join(variants) or "none"}.'
    )
  return variants


def parse_seeds(text: str) -> list[int]:
  """Returns the seeds of `--seeds`, as in `0,1,2`.

  Raises:
    flags.UsageError: If they are not distinct integers >= 0, at most an int64.
  """
  items = text.split(',')
  # `isdecimal` alone also accepts digits of other scripts.
  numbers = [int(item) for item in items if re.fullmatch('[0-9]{1,19}', item)]
  if (
      len(numbers) < len(items)
      or len(set(numbers)) < len(numbers)  # 1 and 01 are the same seed.
      or max(numbers) > hp.LARGEST_SEED
  ):
    raise flags.UsageError(
        f'`--seeds` must be distinct integers >= 0 and <= {hp.LARGEST_SEED},'
        f' such as 0,1,2, found {text!r}.'
    )
  return numbers


_HELP = """Compares methods and their variants over seeds on one task.

    python -m binaries.compare --algos=A,B,... --seeds=0,1,2 [--flag=value ...]

Runs each method (or variant, such as perm[lambda=0.1]) with each seed on one
task, as a training run in OUTPUT_DIR/<variant>/seed<seed>. Finished runs are
not repeated; interrupted runs are resumed. At the end, writes runs.csv,
summary.csv, summary.md, tiers.csv (models of capacity tiers) and plots; plots
that cannot be compared, such as mixing weights, go to the folders of the first
seed (binaries.plot draws all plots of a run at any time). With --delays or an
event-driven method, also writes times.csv: the virtual time to an accuracy. A
method's flags apply to all its variants; bracket options override them.
--rounds gives all variants equally many messages, those of a round times this
number: FedBuff takes fewer server updates than FedAsync.
"""

main = flags.Program(
    'compare', _HELP, compare,
    flags.own_flag(
        'algos', 'perm,fedavg_finetuned,fedavg,local_only',
        'Variants to compare.',
    ),
    flags.own_flag('seeds', '0', 'Seeds of the runs, such as 0,1,2.'),
    timing.TARGETS_FLAG, jobs_flag(1), without=('seed',), resumes=True,
)
