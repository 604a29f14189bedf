"""Runs of variants with seeds in one folder, each as a training run.

What programs that compare methods have in common. Run (variant, seed) is in
<folder>/<variant>/seed<seed>; one that is finished is not run again, one that
was interrupted is resumed.
"""

import os
import re
import sys
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from tff_pers import plugins
from tff_pers.config import hyperparameters as hp
from tff_pers.data import brackets
from tff_pers.evaluation import results
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import runner


class Jobs:
  """The runs that one set of flags asks for."""

  def __init__(self, program: str, given: Mapping[str, Any], folder: str):
    """Keeps the flags.

    Args:
      program: Its name, for messages.
      given: Values of the flags that were given; those of a method are for all
        its variants, brackets go before.
      folder: Where the runs are.
    """
    self._program, self._given, self._top = program, given, folder
    # Maybe in a process of its own, which has not read the command line.
    with flags.sentences():
      plugins.import_named(given.get('import', ''))
    self._table = flags.all_flags(flags.own_flag('algo', '', 'Variant.'))

  def check(self, keys: Iterable[tuple[str, int]]) -> None:
    """Builds the experiments of (variant, seed) pairs without running them.

    Errors must show before hours of training, not in between.

    Raises:
      flags.UsageError: If one cannot be run, or a method's flag has no effect
        in any of them.
    """
    # Of each only the flags, because the data of all together may be large.
    found = [
        (experiment.method.name, experiment.config['flags'])
        for experiment in (self.prepare(*key)[0] for key in keys)
    ]
    for name, value in self._given.items():
      if name not in self._table or self._table[name].kind != 'method':
        continue
      owner = self._table[name].owner
      if not any(own[name] == value for algo, own in found if algo == owner):
        raise flags.UsageError(
            f'`--{name}` must be left out because it has no effect in any'
            f' variant of `--algos`, found {value!r}.'
        )

  def run(
      self, variant: str, seed: int,
      draw: Optional[Callable[[str], Any]] = None,
  ) -> Optional[results.Run]:
    """Runs one unless it is finished; returns None if it diverged.

    Args:
      variant: The method with its options.
      seed: Of the run.
      draw: Plots the results in its folder, see `runner.execute`.
    """
    try:
      return self.execute(variant, seed, draw=draw)
    except runner.Diverged as error:
      print(f'{self._program}: {variant}: {error}', file=sys.stderr)
      return None

  def execute(
      self, variant: str, seed: int, *, within: str = '', **options: Any
  ) -> results.Run:
    """Runs one unless it is finished.

    Args:
      variant: The method with its options.
      seed: Of the run.
      within: See `prepare`.
      **options: See `runner.execute`.

    Raises:
      Diverged, flags.Failure: See `runner.execute`.
    """
    experiment, folder = self.prepare(variant, seed, within=within)
    runner.execute(experiment, folder, quiet=True, **options)
    return results.read_run(folder)

  def prepare(
      self, variant: str, seed: int, *, within: str = ''
  ) -> tuple[experiment_lib.Experiment, str]:
    """Returns the experiment and its folder.

    Args:
      variant: The method with its options.
      seed: Of the run.
      within: Folder of the runs of all seeds, in that of all runs; empty: the
        variant's own.

    Raises:
      flags.UsageError: If it cannot be run, or the folder holds another.
    """
    folder = os.path.join(
        self._top, within or experiment_lib.folder_name(variant), f'seed{seed}'
    )
    experiment = runner.prepare(
        self.flags_of(variant, seed), self._table, folder, resume=True,
        same_flags=True, brackets_win=True,
    )
    return experiment, folder

  def asked(self, variant: str) -> list[str]:
    """Returns the hyperparameters that flags or brackets set, by flag name."""
    algo, options = brackets.parse(variant)
    names = [
        name for name in self._given
        if name in self._table and self._table[name].kind == 'method'
        and self._table[name].owner == algo
    ]
    names += [f'{algo}_{option}' for option in options]
    # Brackets hold other flags, too.
    return [name[len(algo) + 1:] for name in dict.fromkeys(names)
            if name in self._table]

  def flags_of(self, variant: str, seed: int) -> dict[str, Any]:
    """Returns the flags of one run."""
    algo = brackets.parse(variant)[0]
    own = {
        name: value for name, value in self._given.items()
        if name in self._table
        and (self._table[name].kind != 'method'
             or self._table[name].owner == algo)
    }
    return {**own, 'algo': variant, 'seed': seed}


def check_all(
    jobs: Jobs, variants: Sequence[str], seeds: Sequence[int]
) -> None:
  """Meets all errors that variants or seeds can have, see `Jobs.check`."""
  # Each variant with one seed and each seed with one variant do.
  jobs.check(
      (variant, seed) for variant in variants for seed in seeds
      if variant == variants[0] or seed == seeds[0]
  )


def validation_flag(default: float) -> tuple[str, flags.Flag]:
  """Returns --validation_fraction of programs that choose."""
  return flags.own_flag(
      'validation_fraction', default,
      'Share of each client\'s training examples that is held out to choose'
      ' values on.', above=0.0, below=1.0,
  )


def parse_variants(text: str) -> list[str]:
  """Returns the variants of `--algos`.

  Raises:
    flags.UsageError: If there are none, or one is named twice.
  """
  with flags.sentences():
    variants = brackets.split_list(text)
    for variant in variants:
      brackets.parse(variant)
  names = [experiment_lib.folder_name(variant) for variant in variants]
  if not names or len(set(names)) < len(names):
    raise flags.UsageError(
        '`--algos` must name each variant once, at least one, found'
        f' {", ".join(variants) or "none"}.'
    )
  return variants


def parse_seeds(text: str) -> list[int]:
  """Returns the seeds of `--seeds`, as in `0,1,2`.

  Raises:
    flags.UsageError: If they are not distinct integers of an int64, >= 0.
  """
  items = text.split(',')
  # Not `isdecimal` alone, which holds for digits of all scripts.
  numbers = [int(item) for item in items if re.fullmatch('[0-9]{1,19}', item)]
  if (
      len(numbers) < len(items)
      or len(set(numbers)) < len(numbers)  # 1 and 01 are one seed.
      or max(numbers) > hp.LARGEST_SEED
  ):
    raise flags.UsageError(
        f'`--seeds` must be distinct integers >= 0 and <= {hp.LARGEST_SEED}, as'
        f' 0,1,2, found {text!r}.'
    )
  return numbers
