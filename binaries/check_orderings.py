"""Checks orderings of methods in a finished comparison.

    python -m binaries.check_orderings --runs=runs/compare_digits \
      --expect='fedavg<local_only<perm'
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Sequence

from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import orderings

SUMMARY = """\
python -m binaries.check_orderings --runs=DIR --expect=CLAIM[,CLAIM...]

Checks claims about a folder that compare wrote. A claim is a chain of terms
joined by < or <=, such as 'fedavg<local_adaptor<=floral[rank=4]'. A term is a
number, a variant as in --algos, or number*variant; a variant may be followed by
+number or -number: 'floral<0.001*fedavg', 'local_only+0.1<perm'. Prints a row
per link of a chain. A variant that diverged fulfils no claim. Exit codes: 0 all
claims hold, 1 at least one does not, 2 bad flags."""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('check_orderings', SUMMARY, flag_table, _check, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag('runs', '', 'Folder that compare wrote.'),
      flags.own_flag('expect', '', 'Claims, see above.'),
      flags.own_flag(
          'metric', 'accuracy', 'accuracy, loss, or a column of metrics.csv.'
      ),
      flags.own_flag(
          'round', 0, 'Evaluated round to check; 0: the last one.', minimum=0
      ),
      flags.own_flag(
          'statistic', 'mean', 'Statistic over seeds to compare.',
          choices=tuple(orderings.STATISTICS),
      ),
      flags.own_flag(
          'in_seeds', 0, 'Minimum number of seeds in which each claim must hold'
          ' by itself.', minimum=0,
      ),
  ])


def _check(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  del table  # Unused.
  folder = flags.resolve_path(given.pop('runs', ''))
  rows = orderings.check(
      folder, given.pop('expect', ''), at_round=given.pop('round', 0), **given
  )
  print(results.markdown(orderings.COLUMNS, rows))
  return int(any(row['holds'] == 'no' for row in rows))


if __name__ == '__main__':
  sys.exit(main(sys.argv))
