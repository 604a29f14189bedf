"""The training program: rounds, evaluations and checkpoints of one run.

A round is: draw the cohort, fetch its client states, `process.next`, keep the
new states. A run is a function of its arguments: one that was killed and
continues from its last checkpoint ends with the same bits.
"""

import collections
import time
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import process as process_lib
from tff_pers.evaluation import clusters
from tff_pers.evaluation import summary
from tff_pers.simulation import cohort as cohort_lib
from tff_pers.simulation import progress as progress_lib
from tff_pers.simulation import release
from tff_pers.simulation import store

# Clients evaluated in one call; bounds the memory, changes no number.
_CLIENTS_PER_CALL = 128
# A checkpoint is taken at every evaluated round, and when the last is so old.
_CHECKPOINT_SECONDS = 60.0
# Metrics of M that are not of one round, or have their own column.
_OWN_COLUMNS = ('train_loss', 'bytes_down', 'bytes_up')
_SUMMARY_COLUMNS = (
    'seconds', 'train_loss', 'accuracy_mean', 'loss_mean',
    'accuracy_worst_decile',
)
_CLUSTER_COLUMNS = ('cluster_accuracy', 'cluster_nmi')


class NonFiniteError(RuntimeError):
  """Training met a loss or an update that is NaN or infinite."""

  def __init__(self, round_num: int, clients: Sequence[int]):
    names = ', '.join(map(str, clients[:10])) or 'the whole cohort'
    if len(clients) > 10:
      names += f' and {len(clients) - 10} more'
    super().__init__(
        'The loss must stay finite, found NaN or infinity in round'
        f' {round_num} at client {names}. Tip: lower the learning rate.'
    )
    self.round_num = round_num
    self.clients = list(clients)


class Data(NamedTuple):
  """Dense data of clients, in order of the index: train and test."""

  train: Sequence[Any]
  test: Sequence[Any]


def _frozen(clients) -> list:
  """Returns clients whose arrays are made read-only.

  A runtime may then keep on its device what comes again; a change would not be
  seen, and so raises an error.
  """
  def freeze(array):
    frozen = owner = np.asarray(array)
    while isinstance(owner, np.ndarray):
      owner.flags.writeable = False
      owner = owner.base
    return frozen
  return [tf.nest.map_structure(freeze, client) for client in clients]


class Position(NamedTuple):
  """How far a run is.

  Attributes:
    round: Rounds done.
    seconds: Wall-clock seconds spent in them, evaluation left out.
    clients: Client participations so far.
    bytes_down: Bytes sent to clients so far.
    bytes_up: Bytes sent by clients so far.
    finished: Whether all results are written.
  """

  round: int = 0
  seconds: float = 0.0
  clients: int = 0
  bytes_down: float = 0.0
  bytes_up: float = 0.0
  finished: bool = False


def columns(
    process: process_lib.PersonalizedProcess, groups=None
) -> list[str]:
  """Returns the columns of a metrics row, after `round`.

  After the common ones: `bytes_down` and `bytes_up` (per client and round, mean
  over the rounds so far), then the scalar metrics of the method, and how well
  it recovers the true clusters `groups` (int[N] or None) if it has a view on
  them, see `evaluation.clusters`.
  """
  return [
      *_SUMMARY_COLUMNS, 'bytes_down', 'bytes_up', *_method_metrics(process),
      *(_CLUSTER_COLUMNS if _sees_clusters(process, groups) else ()),
  ]


def _sees_clusters(process, groups) -> bool:
  reports = process.evaluate.type_signature.result.member
  return groups is not None and (
      'router' in tff.structure.name_list(reports)
      or 'mixing' in tff.structure.name_list(process.server_state_type)
  )


def _method_metrics(process) -> list[str]:
  """Returns the names of M's scalars that are columns as they are."""
  metrics_type = process.next.type_signature.result['metrics'].member
  return [
      name
      for name, member in tff.structure.iter_elements(metrics_type)
      if name not in _OWN_COLUMNS
      and isinstance(member, tff.TensorType)
      and len(member.shape) == 0
  ]


class TrainingProgram:
  """Trains one process on the data of its clients."""

  def __init__(
      self,
      process: process_lib.PersonalizedProcess,
      data: Data,
      states: store.ClientStateStore,
      *,
      seed: int = 0,
      groups: Optional[np.ndarray] = None,
  ):
    """Starts at round 0, or at the checkpoint that `states` holds.

    Args:
      process: The method.
      data: Data of the clients; `index` is the position.
      states: Client states and checkpoints.
      seed: The run's seed.
      groups: int[N], the true clusters of the clients if they are known.
    """
    self._process, self._states = process, states
    self._data = Data(*(_frozen(clients) for clients in data))
    self._seed, self._groups = seed, groups
    self._initialize = _build_initialize_clients(process)
    self._like = None
    self._state = process.initialize_seeded(seed)
    self._position = Position()
    if states.position() is not None:
      self._position = Position(**states.position())
      self._state = states.server_state(like=self._state)

  @property
  def position(self) -> Position:
    return self._position

  @property
  def state(self):
    """The server state."""
    return self._state

  def run(
      self,
      sampler: cohort_lib.Sampler,
      *,
      rounds: int,
      eval_every: int,
      releases: release.Releases,
      progress: progress_lib.Progress,
  ) -> Mapping[str, np.ndarray]:
    """Trains up to round `rounds`; returns the metrics of the last evaluation.

    Args:
      sampler: Who takes part, see `cohort`.
      rounds: Rounds of the whole run, those done included.
      eval_every: All clients are evaluated, and a checkpoint is taken, after
        every `eval_every` rounds and after the last.
      releases: Takes a row of `columns` per evaluated round.
      progress: Is told of every round.

    Raises:
      NonFiniteError: If a loss or an update is not finite.
      OSError: If results cannot be written. The last checkpoint stays.
    """
    metrics = None
    saved = time.monotonic()
    for round_num in range(self._position.round + 1, rounds + 1):
      cohort = sampler(self._seed, round_num - 1)
      measured = self.train_round(cohort)
      progress.round_done(round_num, measured['train_loss'], len(cohort))
      if round_num % eval_every == 0 or round_num == rounds:
        metrics = self.evaluate(self._data)
        row = self._row(measured, metrics)
        progress.evaluated(row['accuracy_mean'])
        releases.release(row, round_num)
      elif time.monotonic() - saved < _CHECKPOINT_SECONDS:
        continue
      self._states.commit(self._state, self._position._asdict())
      saved = time.monotonic()
    return self.evaluate(self._data) if metrics is None else metrics

  def train_round(self, cohort: np.ndarray) -> dict[str, float]:
    """Trains one round with the clients `cohort`; returns its scalar metrics.

    Raises:
      NonFiniteError: If a loss or an update is not finite; nothing changed.
    """
    started = time.monotonic()
    cohort = [int(client) for client in cohort]
    output = self._process.next(
        self._state, self._client_states(cohort),
        [self._data.train[client] for client in cohort],
    )
    metrics = output['metrics']
    bad = np.asarray(metrics['non_finite']).tolist()
    # `train_loss` is NaN where nobody trained (PERM: all weights 0 in a round).
    if bad:
      raise NonFiniteError(self._position.round + 1, bad)
    if self._process.is_stateful:
      for client, state in zip(cohort, output['client_states']):
        self._states.put(client, state)
    self._state = output['state']
    done = self._position
    self._position = Position(
        round=done.round + 1,
        seconds=done.seconds + time.monotonic() - started,
        clients=done.clients + len(cohort),
        bytes_down=done.bytes_down + float(metrics['bytes_down']) * len(cohort),
        bytes_up=done.bytes_up + float(metrics['bytes_up']) * len(cohort),
    )
    return {
        name: np.asarray(metrics[name]).item()
        for name in ('train_loss', *_method_metrics(self._process))
    }

  def evaluate(self, data: Data, first: int = 0) -> dict[str, np.ndarray]:
    """Returns the metrics of clients, [N] each; changes no state.

    Args:
      data: Their data.
      first: Index of the first of them.
    """
    parts = collections.defaultdict(list)
    for start in range(0, len(data.train), _CLIENTS_PER_CALL):
      chunk = range(start, min(start + _CLIENTS_PER_CALL, len(data.train)))
      results = self._process.evaluate(
          self._state,
          self._client_states([first + position for position in chunk]),
          [
              collections.OrderedDict(adapt=data.train[p], test=data.test[p])
              for p in chunk
          ],
      )
      for result in results:
        for name, value in result.items():
          parts[name].append(value)
    return {name: np.asarray(values) for name, values in parts.items()}

  def client_weights(self, client: int):
    """Returns what `client` deploys, as the method's `client_model` says."""
    return self._process.client_model(
        self._state, self._client_states([client])[0], client
    )

  def finish(self) -> None:
    """Notes in the checkpoint that all results are written."""
    self._position = self._position._replace(finished=True)
    self._states.set_position(self._position._asdict())

  def _client_states(self, clients: Sequence[int]) -> list[Any]:
    """Returns the states of `clients`; initial ones are not stored."""
    if not self._process.is_stateful:
      return [()] * len(clients)
    new = [client for client in clients if client not in self._states]
    if new or self._like is None:
      fresh = self._initialize(self._state, new or clients[:1])
      self._like = fresh[0]
    initial = dict(zip(new, fresh)) if new else {}
    return [
        initial[client]
        if client in initial
        else self._states.get(client, self._like)
        for client in clients
    ]

  def _row(self, measured, metrics) -> dict[str, Any]:
    """Returns the row of this round: `columns`; no accuracy on regression."""
    examples = metrics['num_examples']
    loss = summary.summarize(metrics['loss'], examples, higher_is_better=False)
    accuracy: Optional[summary.Summary] = None
    if 'accuracy' in metrics:
      accuracy = summary.summarize(
          metrics['accuracy'], examples, higher_is_better=True
      )
    position = self._position
    values = dict(
        seconds=position.seconds,
        accuracy_mean=accuracy.mean if accuracy else None,
        loss_mean=loss.mean,
        accuracy_worst_decile=accuracy.worst_decile if accuracy else None,
        bytes_down=position.bytes_down / max(position.clients, 1),
        bytes_up=position.bytes_up / max(position.clients, 1),
        **measured,
        **self._recovery(metrics),
    )
    return {name: values[name] for name in columns(self._process, self._groups)}

  def _recovery(self, metrics) -> dict[str, Optional[float]]:
    """Returns the cluster columns of this round."""
    if not _sees_clusters(self._process, self._groups):
      return {}
    found = clusters.score(
        self._groups, metrics.get('router'),
        self._state['mixing'] if 'mixing' in self._state else None,
    )
    return dict(zip(_CLUSTER_COLUMNS, found or (None, None)))


def _build_initialize_clients(process) -> tff.Computation:
  """Returns (S, indices -> client states), all new clients in one call."""

  @tff.federated_computation(
      tff.FederatedType(process.server_state_type, tff.SERVER),
      tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def initialize_clients(state, indices):
    return tff.federated_map(
        process.initialize_client, (tff.federated_broadcast(state), indices)
    )

  return initialize_clients
