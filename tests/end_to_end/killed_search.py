"""`tune` or `choose` that dies by SIGKILL: MOMENT COUNT LOG PROGRAM, then flags.

A child process of `kill_search_test`; the COUNT-th time that MOMENT comes, it
dies. With MOMENT never it does not. LOG gets a line for every round that was
trained, by whichever process.
"""

import importlib
import os
import sys

from tests.end_to_end import killed_train
from tff_pers.evaluation import results
from tff_pers.experiments import studies
from tff_pers.simulation import program
from tff_pers.simulation import store

# See `killed_train.MOMENTS`.
MOMENTS = {
    'values drawn': (studies, '_suggest', 'after'),
    'trial claimed': (studies.Study, 'claim', 'after'),
    'config written': (results, 'write_config', 'after'),
    'round trained': (program.TrainingProgram, 'train_round', 'after'),
    'checkpoint committed': (store.ClientStateStore, 'commit', 'after'),
    'round reported': (studies.Claim, 'report', 'after'),
    'run finished': (program.TrainingProgram, 'finish', 'after'),
    'trial ended': (studies.Claim, 'end', 'after'),
}


def log_rounds(path: str) -> None:
  """Writes the run and the round of every trained round to a file."""
  train_round = program.TrainingProgram.train_round

  def logged(self, *cohorts):
    found = train_round(self, *cohorts)
    states = self._states.path  # pylint: disable=protected-access
    with open(path, 'a', encoding='utf-8') as file:
      file.write(f'{os.path.dirname(states)} {self.position.round}\n')
    return found

  program.TrainingProgram.train_round = logged


if __name__ == '__mp_main__':  # A process of `worker_pool`, with our arguments.
  log_rounds(sys.argv[3])

if __name__ == '__main__':
  moment, count, log, name, *argv = sys.argv[1:]
  log_rounds(log)
  if moment != 'never':
    killed_train.arm(MOMENTS[moment], int(count))
  main = importlib.import_module(f'binaries.{name}').main
  sys.exit(main([name, *argv]))
