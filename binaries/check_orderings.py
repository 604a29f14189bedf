"""Checks orderings of methods in a finished comparison.

    python -m binaries.check_orderings --runs=DIR --expect=CLAIM[,CLAIM...]

Checks claims about a folder that compare wrote. A claim is a chain of terms
joined by < or <=, such as 'fedavg<local_adaptor<=floral[rank=4]'. A term is a
number, a variant as in --algos, or number*variant; a variant may be followed by
+number or -number: 'floral<0.001*fedavg', 'local_only+0.1<perm'. Prints a row
per link of a chain. A variant that diverged fulfils no claim. Exit codes: 0 all
claims hold, 1 at least one does not, 2 bad flags.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import orderings

main = flags.Program(
    'check_orderings', __doc__, orderings.run,
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
        choices=orderings.STATISTICS,
    ),
    flags.own_flag(
        'in_seeds', 0, 'Minimum number of seeds in which each claim must hold'
        ' by itself.', minimum=0,
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
