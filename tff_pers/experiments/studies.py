"""One variant's Optuna study, shared by several processes.

Optuna keeps the trials in a journal in the variant's folder. Several processes
may work on one study: each claims a trial by locking its folder. If a process
is killed, its trial loses the lock; the next process that asks for a trial gets
this one, with the same values.
"""

import contextlib
import json
import os
from typing import Any, Mapping, Optional
import zlib

import numpy as np
import optuna
from optuna.storages import journal

from tff_pers.config import search_spaces
from tff_pers.core import locks
from tff_pers.evaluation import damaged
from tff_pers.evaluation import summary
from tff_pers.evaluation import trials as trials_lib

JOURNAL = 'study.journal'
# Number of trials with values drawn from the whole space, before the sampler
# uses the results.
_RANDOM_TRIALS = 5
# A trial is pruned only after the first part of its rounds, and only if there
# are this many others to compare with or it is far behind.
_TRIALS_TO_COMPARE = 3
_UNPRUNED_SHARE = 0.2
_TIP = 'delete its folder to restart the search'


class Study:
  """The trials of one variant."""

  def __init__(
      self, folder: str, space: search_spaces.Space, *, metric: str, seed: int,
      rounds: int,
  ):
    """Opens the study in `folder`, or makes it.

    Args:
      folder: Folder of the variant.
      space: The search space.
      metric: `accuracy` or `loss`.
      seed: Drawn values depend on this seed, the trial's number and earlier
        trials; first trials of different methods draw alike.
      rounds: Rounds of a run.

    Raises:
      damaged.DamagedError: If the journal is not one of this study.
    """
    self._folder, self._space, self._seed = folder, space, seed
    self._unpruned = int(_UNPRUNED_SHARE * rounds)
    os.makedirs(folder, exist_ok=True)
    with damaged.reading(os.path.join(folder, JOURNAL), _TIP):
      self._study = optuna.create_study(
          storage=_storage(folder), study_name='study', load_if_exists=True,
          direction=(
              'maximize' if summary.is_higher_better(metric) else 'minimize'
          ),
          pruner=optuna.pruners.MedianPruner(
              n_startup_trials=_TRIALS_TO_COMPARE,
              n_warmup_steps=self._unpruned,
          ),
      )
      self.trials()

  def claim(
      self, limit: Optional[int] = None, paused: bool = False
  ) -> Optional['Claim']:
    """Claims a trial that a killed process began, or a new one.

    New trials are begun while there are fewer than the limit, if there is one.
    A trial that was paused is claimed only with `paused`.

    Returns:
      The trial; None if there is none to claim, though others may be running.
    """
    with locks.held(self._folder):
      found = self._begun()
      for frozen in found:
        if frozen.state != optuna.trial.TrialState.RUNNING:
          continue
        if paused or not frozen.user_attrs.get('is_paused'):
          lock = self._lock(frozen.number + 1)
          if lock is not None:
            # pylint: disable-next=protected-access
            return self._open(frozen._trial_id, frozen.number + 1, lock)
      if limit is not None and len(found) >= limit:
        return None
      if not found:
        self._study.enqueue_trial(
            dict(self._space.defaults), skip_if_exists=True
        )
      trial = self._study.ask()
      # pylint: disable-next=protected-access
      return self._open(
          trial._trial_id, trial.number + 1, self._lock(trial.number + 1)
      )

  def is_running(self) -> bool:
    """Whether a trial has begun and not ended."""
    return any(t.state == 'running' for t in self.trials())

  def trials(self) -> list[trials_lib.Trial]:
    """Returns the trials that have begun, in order."""
    return [_read(frozen) for frozen in self._begun()]

  def _begun(self) -> list[optuna.trial.FrozenTrial]:
    # Enqueued trials that nobody has claimed have not begun.
    return [
        trial for trial in self._study.get_trials(deepcopy=False)
        if trial.state != optuna.trial.TrialState.WAITING
    ]

  def _lock(self, number: int) -> Optional[locks.Lock]:
    folder = os.path.join(self._folder, trial_folder(number))
    os.makedirs(folder, exist_ok=True)
    return locks.attempt(folder)

  def _open(self, trial_id: int, number: int, lock) -> 'Claim':
    """Returns the trial with its values, some of which may exist already."""
    trial = optuna.Trial(self._study, trial_id)

    def draw(name: str, dimension):
      # A new sampler for every value, so that a trial that was killed between
      # draws gets the same values again.
      self._study.sampler = optuna.samplers.TPESampler(
          n_startup_trials=_RANDOM_TRIALS, constant_liar=True,
          seed=_mixed(self._seed, number, name),
      )
      return _suggest(trial, name, dimension)

    if number > 1:
      values = self._space.sample(draw)
    else:
      for name in self._space.defaults:
        draw(name, self._space.dimensions[name])
      values = dict(self._space.acting_base)
    trial.set_user_attr('values', values)
    trial.set_user_attr('is_paused', False)
    return Claim(self._study, trial, lock, values, self._unpruned)


class Claim:
  """A trial that this process works on until it ends the trial or dies.

  Attributes:
    number: Number of the trial, from 1.
    values: Hyperparameters by flag name, see `trials.Trial`.
  """

  def __init__(
      self, study: optuna.Study, trial: optuna.Trial, lock: Any,
      values: Mapping[str, Any], unpruned: int,
  ):
    self._study, self._trial, self._lock = study, trial, lock
    self._unpruned = unpruned
    self.number, self.values = trial.number + 1, values

  @property
  def options(self) -> Mapping[str, str]:
    """The values as texts; empty for the defaults."""
    return options(self.number, self.values)

  @property
  def seconds(self) -> float:
    """Seconds that killed processes spent on it."""
    return self._trial.user_attrs.get('seconds', 0.0)

  def report(self, round_num: int, value: float, seconds: float) -> None:
    """Records its validation metric after a round, and its time so far."""
    begun = self._study.get_trials(deepcopy=False)
    if round_num not in begun[self._trial.number].intermediate_values:
      self._trial.report(value, round_num)
      self._trial.set_user_attr('seconds', seconds)

  def should_be_pruned(self) -> bool:
    """Whether it is far enough behind others after as many rounds.

    That is, worse than most of at least three others, or less than half as good
    as the best (half the accuracy or twice the loss).
    """
    return self._trial.should_prune() or self._is_hopeless()

  def _is_hopeless(self) -> bool:
    begun = self._study.get_trials(deepcopy=False)
    own = begun[self._trial.number].intermediate_values
    last = max(own)
    others = [
        trial.intermediate_values[last] for trial in begun
        if trial.number != self._trial.number
        and last in trial.intermediate_values
    ]
    if not others or last < self._unpruned:
      return False
    if self._study.direction == optuna.study.StudyDirection.MAXIMIZE:
      return own[last] < max(others) / 2
    return own[last] > 2 * min(others)

  def end(
      self, state: str, rounds: int, validation: float, seconds: float
  ) -> None:
    """Ends the trial and releases it; see `trials.Trial` for its numbers."""
    self._trial.set_user_attr(
        'outcome', [state, rounds, repr(validation), seconds]
    )
    if state in trials_lib.MAY_WIN:
      self._study.tell(self._trial, validation)
    else:
      # The sampler must treat a diverged trial as bad, not as missing.
      self._study.tell(self._trial, state=optuna.trial.TrialState.PRUNED)
    self.release()

  def pause(self, seconds: float) -> None:
    """Releases the unfinished trial until there is more time for it."""
    self._trial.set_user_attr('seconds', seconds)
    self._trial.set_user_attr('is_paused', True)
    self.release()

  def release(self) -> None:
    """Releases the unfinished trial; the next process to claim it resumes."""
    self._lock.release()


def options(number: int, values: Mapping[str, Any]) -> dict[str, str]:
  """Returns the values of a trial as texts; empty for the defaults."""
  return search_spaces.as_options(values) if number > 1 else {}


def trial_folder(number: int) -> str:
  """Returns the folder of a trial within that of its variant."""
  return f'trial{number:04d}'


def _storage(folder: str) -> optuna.storages.JournalStorage:
  """Returns the storage of a study, which survives a kill."""
  # It would log the start and end of every trial.
  optuna.logging.set_verbosity(optuna.logging.WARNING)
  path = os.path.join(folder, JOURNAL)
  lock = JournalLock(path)
  lock.acquire()
  try:
    _check_journal(path)
  finally:
    lock.release()
  return optuna.storages.JournalStorage(
      # The base class of locks is not public.
      journal.JournalFileBackend(path, lock_obj=lock)  # type: ignore[arg-type]
  )


def _check_journal(path: str) -> None:
  """Raises a ValueError unless all lines look like Optuna's."""
  with open(path, encoding='utf-8') as file:
    for number, line in enumerate(file, 1):
      entry = json.loads(line)
      if not isinstance(entry, dict) or not {'op_code', 'worker_id'} <= set(
          entry
      ):
        raise ValueError(f'line {number} is not an entry of a journal')


def _read(frozen: optuna.trial.FrozenTrial) -> trials_lib.Trial:
  attributes = frozen.user_attrs
  values = attributes.get('values', {})
  # Complete when written at the end; for a running trial, as known so far.
  if frozen.state.is_finished():
    state, rounds, validation, seconds = attributes['outcome']
    return trials_lib.Trial(
        frozen.number + 1, state, rounds, float(validation), seconds, values
    )
  known = frozen.intermediate_values
  last = max(known, default=0)
  state = 'stopped' if attributes.get('is_paused') else 'running'
  return trials_lib.Trial(
      frozen.number + 1, state, last, known.get(last, np.nan),
      attributes.get('seconds', 0.0), values,
  )


def _suggest(trial: optuna.Trial, name: str, dimension) -> Any:
  """Returns the sampler's value of a dimension, the same if asked again."""
  if isinstance(dimension, search_spaces.Choice):
    return trial.suggest_categorical(name, dimension.values)
  suggest = trial.suggest_int if dimension.is_int else trial.suggest_float
  return suggest(name, dimension.low, dimension.high, log=dimension.log)


def _mixed(seed: int, number: int, name: str) -> int:
  """Returns a 32-bit seed for a sampler."""
  entropy = [seed, number, zlib.crc32(name.encode())]
  return int(np.random.SeedSequence(entropy).generate_state(1)[0])


class JournalLock:
  """A lock for Optuna's journal, held on the journal file itself.

  A process killed while writing leaves half a line, after which entries that
  others append would be unreadable; the next to lock the file removes it.
  """

  def __init__(self, path: str):
    self._path, self._held = path, contextlib.ExitStack()

  def acquire(self) -> bool:
    """Waits for the lock."""
    with open(self._path, 'ab'):
      pass  # Makes the file if there is none.
    self._held.enter_context(locks.held(self._path))
    _cut_half_line(self._path)
    return True

  def release(self) -> None:
    """Releases the lock."""
    self._held.close()


def _cut_half_line(path: str) -> None:
  """Removes everything after the last newline."""
  with open(path, 'r+b') as file:
    # Lines are much shorter than this.
    start = max(0, os.path.getsize(path) - 2 ** 20)
    file.seek(start)
    tail = file.read()
    if not tail.endswith(b'\n'):
      file.truncate(start + tail.rfind(b'\n') + 1)
