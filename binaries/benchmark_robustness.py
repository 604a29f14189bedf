"""Compares robust rules under attacks, on generated systems and on MNIST.

    python -m binaries.benchmark_robustness --data_dir=DATA

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. 2023 (Algorithm 5).
Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing
    Karimireddy, He, Jaggi. ICLR 2022 (MNIST).
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import pathlib
import sys
import traceback
from typing import Sequence

from binaries import robustness
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import robustness_page

_FILE = benchmarks.read_settings(str(
    pathlib.Path(__file__).parent / 'benchmarks/settings/robustness.yaml'
))


def _robustness(argv: Sequence[str]) -> int:
  """Makes a table; child processes find this function by its name.

  One that fails leaves the others alone, Ctrl-C ends them all.
  """
  try:
    code = robustness.main(argv)
  except Exception:  # pylint: disable=broad-except
    traceback.print_exc()
    return 1
  if code == flags.INTERRUPTED:
    raise KeyboardInterrupt
  return code


main = flags.Program(
    'benchmark_robustness', _FILE.help,
    lambda given: robustness_page.run(given, _FILE, _robustness),
    flags.own_flag('parts', ','.join(_FILE.settings), 'Tables to make.'),
    flags.own_flag('data_dir', '', 'Folder of MNIST.'),
    flags.own_flag(
        'rounds', 0, 'Rounds of all tables; 0: those listed above.', minimum=0
    ),
    flags.own_flag(
        'jobs', 0, 'Tables made in parallel; 0: one per core.', minimum=0
    ),
    flags.own_flag('output_dir', '', 'Folder of the results.'),
    resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
