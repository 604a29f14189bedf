"""Measures CPU seconds and memory of robust rules, beside NumPy's sort.

    python -m binaries.benchmark_rules --repetitions=3

Runs every rule on a stacked matrix of 100 messages of 1e6 float32 parameters.
The number of messages is unknown when the rule is traced, as within TFF. The
last column is relative to `np.sort(x, axis=0)` in the same turn. Memory is the
rise of the process's peak since the matrix was created, so that it can only
grow from row to row.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import rules
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_rules', __doc__, rules.run,
    flags.own_flag('repetitions', 3, 'Number of measured turns.', minimum=1),
    flags.own_flag('clients', 100, 'Messages.', minimum=5),
    flags.own_flag('parameters', 10**6, 'Length of a message.', minimum=1),
    flags.own_flag(
        'rules',
        'mean,norm_clipping,centered_clipping,geometric_median,median,'
        'trimmed_mean,bucketing(median),krum,multi_krum,caf,nnm(median)',
        'Rules to measure; they assume that a tenth of the messages is'
        ' Byzantine.',
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
