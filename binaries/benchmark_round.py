"""Measures seconds per round and the share spent outside TensorFlow.

    python -m binaries.benchmark_round --rounds=5
    python -m binaries.benchmark_round --clients=10000 --clients_per_round=100

A cohort of 50 clients of 100 examples trains an MLP 784-200-200-10 for 20 local
steps of batch 20. Reports per method the median wall and CPU seconds (this
process and, on the native runtime, TFF's worker) per round, and for FedAvg and
PERM the CPU seconds of the same client work as one `tf.function` call per
client, which is the share inside TensorFlow. Then times the server's update of
the mixing weights alone.

With --clients_per_round, instead runs rounds of PERM with that many clients: 20
examples of 64 features each, logistic regression of 650 weights, 5 local steps.
Reports CPU seconds per round (clients included) beside FedAvg's, and the peak
memory of the process so far; first with 20 cluster models, then with one model
per client.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import harness
from binaries.speed import round as round_lib
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_round', __doc__, round_lib.run,
    flags.own_flag('rounds', 5, 'Measured rounds per method.', minimum=1),
    flags.own_flag('clients', 50, 'Number of clients.', minimum=2),
    flags.own_flag(
        'clients_per_round', 0,
        'Clients that take part in a round; 0: all.', minimum=0,
    ),
    harness.RUNTIME_FLAG,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
