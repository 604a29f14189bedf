"""`train` that dies by SIGKILL: MOMENT COUNT, then the flags of train.

A child process of `kill_test`; the COUNT-th time that MOMENT comes, it dies.
"""

import functools
import os
import signal
import sys

from binaries import train
from tff_pers.evaluation import results
from tff_pers.simulation import program
from tff_pers.simulation import release
from tff_pers.simulation import store

# Where to die: the function, and whether before or after it has run.
MOMENTS = {
    'config written': (results, 'write_config', 'after'),
    'round trained': (program.TrainingProgram, 'train_round', 'after'),
    'evaluation begun': (program.TrainingProgram, 'evaluate', 'before'),
    'row released': (release.Releases, 'release', 'after'),
    'server state in the transaction': (
        store.ClientStateStore, '_write', 'after'
    ),
    'checkpoint committed': (store.ClientStateStore, 'commit', 'after'),
    'clients written': (results, 'write_clients', 'after'),
    'all but finished': (program.TrainingProgram, 'finish', 'before'),
}


def arm(place, count: int) -> None:
  """Wraps a function so that its `count`-th call kills us.

  Args:
    place: See `MOMENTS`.
    count: From 1.
  """
  owner, name, when = place
  function = getattr(owner, name)
  calls = []

  @functools.wraps(function)
  def deadly(*args, **kwargs):
    # A client's state is no moment: the server's (owner -1) is written last.
    if name != '_write' or args[2] == -1:
      calls.append(name)
    if when == 'before' and len(calls) == count:
      os.kill(os.getpid(), signal.SIGKILL)
    result = function(*args, **kwargs)
    if when == 'after' and len(calls) == count:
      os.kill(os.getpid(), signal.SIGKILL)
    return result

  setattr(owner, name, deadly)


if __name__ == '__main__':
  arm(MOMENTS[sys.argv[1]], int(sys.argv[2]))
  sys.exit(train.main(['train', *sys.argv[3:]]))
