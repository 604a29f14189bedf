"""Computes the rows of `metrics.csv`."""

import types
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np

from tff_pers.core import process as process_lib
from tff_pers.evaluation import clusters
from tff_pers.evaluation import summary
from tff_pers.simulation import position as position_lib
from tff_pers import tff

# Metrics of M with columns of their own: bytes are means over all rounds so
# far, not values of one round.
_OWN_COLUMNS = ('train_loss', 'bytes_down', 'bytes_up')
_SUMMARY_COLUMNS = (
    'seconds', 'train_loss', 'accuracy_mean', 'loss_mean',
    'accuracy_worst_decile',
)
_CLUSTER_COLUMNS = ('cluster_accuracy', 'cluster_nmi')
_ROUTER_COLUMNS = ('router_used', 'router_largest_load')
_OVERLAP_COLUMN = 'cluster_overlap'


class MetricRows:
  """The rows of one process on one task.

  Columns after `round`: the common ones; `bytes_down` and `bytes_up` (per
  client and round, mean over the rounds so far); the method's scalar metrics
  (nested ones under their path, e.g. `aggregator/clipping_norm`); the load of
  routed options (see `clusters.Load`), if the method reports a router; then
  columns that the task defines.

  Attributes:
    columns: The names of the columns.
  """

  def __init__(
      self,
      process: process_lib.PersonalizedProcess,
      *,
      groups: Optional[np.ndarray] = None,
      honest: Optional[np.ndarray] = None,
      has_validation: bool = False,
      metric: str = 'accuracy',
      has_distance: bool = False,
      has_dropped: bool = False,
      epsilon: Optional[Callable[[int], float]] = None,
      others: Sequence[str] = (),
  ):
    """Determines the columns.

    Args:
      process: The method.
      groups: int[N], the true clusters, or None. Two columns say how well the
        method recovers them if it estimates clusters, see
        `evaluation.clusters`; a router has a third: how much clusters share.
      honest: int[H], the clients that are evaluated; None: all.
      has_validation: Whether there are `accuracy_validation` and
        `loss_validation`, means over clients as `accuracy_mean`.
      metric: The metric by which validation data choose; it has columns for
        test and validation data if it is neither accuracy nor loss.
      has_distance: Whether there is `distance`, see `optimum_distance`.
      has_dropped: Whether there is `dropped`: how often, so far, a client of a
        round was dropped because its loss or update was not finite. The column
        is always there if the method reports clients as `refused`.
      epsilon: Returns the epsilon of differential privacy after a number of
        rounds, a column; None: no such column.
      others: Columns that follow these.

    Raises:
      ValueError: If a metric of the method has the name of another column.
    """
    self._epsilon, self._honest = epsilon, honest
    measured = process.next.type_signature.result['metrics'].member
    tensors = list(_tensors(measured))
    self._paths = {
        '/'.join(map(str, path)): path
        for path, tensor in tensors if tensor.shape == ()
    }
    self._refused_paths = [path for path, _ in tensors if path[-1] == 'refused']
    names_of = tff.structure.name_list
    self._routes = 'router' in names_of(
        process.evaluate.type_signature.result.member
    )
    has_groups = groups is not None and (
        self._routes or 'mixing' in names_of(process.server_state_type)
    )
    self._groups = groups if has_groups else None
    self.columns = [
        *_SUMMARY_COLUMNS, 'bytes_down', 'bytes_up',
        *[name for name in self._paths if name not in _OWN_COLUMNS],
        *(_ROUTER_COLUMNS if self._routes else ()),
        *(() if metric in summary.COMMON else [f'{metric}_mean']),
        *(f'{name}_validation'
          for name in dict.fromkeys((*summary.COMMON, metric))
          if has_validation),
        *(['epsilon'] if epsilon else ()),
        *(['distance'] if has_distance else ()),
        *(['dropped'] if has_dropped or self._refused_paths else ()),
        *(_CLUSTER_COLUMNS if has_groups else ()),
        *([_OVERLAP_COLUMN] if has_groups and self._routes else ()),
    ]
    taken = [
        name for name in self._paths
        if ['round', *self.columns, *others].count(name) > 1
    ]
    if taken:
      raise ValueError(
          f'The method reports the metric {taken[0]}, which is the name of'
          ' another column of metrics.csv. Give it a name of its own.'
      )

  def measured(self, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Returns the scalars of M of one round, by column."""
    return {
        name: _number(_at(metrics, path))
        for name, path in self._paths.items()
        # `row` takes the bytes from the position instead, as a mean over
        # rounds.
        if name == 'train_loss' or name not in _OWN_COLUMNS
    }

  def refused(self, metrics: Mapping[str, Any]) -> list[int]:
    """Returns the clients whose messages were refused in the round of M."""
    return sorted({
        int(client) for path in self._refused_paths
        for client in np.asarray(_at(metrics, path))
    })

  def row(
      self,
      position: position_lib.Position,
      measured: Mapping[str, float],
      metrics: Mapping[str, np.ndarray],
      *,
      state: Any,
      validation: Optional[Mapping[str, np.ndarray]] = None,
      distances: Optional[np.ndarray] = None,
      chosen_by: Mapping[str, float] = types.MappingProxyType({}),
  ) -> dict[str, Any]:
    """Returns the row of a round, with `columns`; regression has no accuracy.

    Args:
      position: Progress of the run.
      measured: What `measured` returned for this round.
      metrics: Metrics of the evaluated clients on their test data, [H] each.
      state: The server state.
      validation: The same metrics on their validation data, or None.
      distances: float64[H], or None.
      chosen_by: The columns of the metric by which validation data choose, if
        that is neither accuracy nor loss.
    """
    loss, accuracy = _summaries(metrics)
    values = dict(
        measured,
        seconds=position.seconds,
        accuracy_mean=accuracy and accuracy.mean,
        loss_mean=loss.mean,
        accuracy_worst_decile=accuracy and accuracy.worst_decile,
        bytes_down=position.bytes_down / max(position.clients, 1),
        bytes_up=position.bytes_up / max(position.clients, 1),
        dropped=position.num_dropped,
        **self._recovery(metrics, state), **self._load(metrics), **chosen_by,
    )
    if validation is not None:
      loss, accuracy = _summaries(validation)
      values.update(
          accuracy_validation=accuracy and accuracy.mean,
          loss_validation=loss.mean,
      )
    if self._epsilon:
      values['epsilon'] = self._epsilon(position.round)
    if distances is not None:
      values['distance'] = float(np.mean(distances))
    return {name: values[name] for name in self.columns}

  def _recovery(self, metrics, state) -> dict[str, Optional[float]]:
    """Returns the cluster columns of a round, for the evaluated clients."""
    if self._groups is None:
      return {}
    groups, mixing = np.asarray(self._groups), None
    honest = (
        np.arange(len(groups)) if self._honest is None else self._honest
    )
    assignment = np.asarray(state.get('assignment', ()))
    if 'mixing' in state and not assignment.size:
      mixing = clusters.dense_mixing(state['mixing'], len(groups))
      mixing = mixing[honest][:, honest]
    groups, router = groups[honest], metrics.get('router')
    found = (
        clusters.recovery(assignment[honest], groups) if assignment.size
        else clusters.score(groups, router, mixing)
    )
    columns = dict(zip(_CLUSTER_COLUMNS, found or (None, None)))
    if self._routes:
      columns[_OVERLAP_COLUMN] = clusters.overlap(router, groups)
    return columns

  def _load(self, metrics) -> dict[str, Optional[float]]:
    """Returns the router columns of a round, None without adaptors."""
    if not self._routes:
      return {}
    has_any = np.shape(metrics['router'])[1]
    found = clusters.load(metrics['router']) if has_any else (None, None)
    return dict(zip(_ROUTER_COLUMNS, found))


def _summaries(metrics):
  """Returns the summaries of loss and of accuracy, None on regression."""
  examples = metrics['num_examples']
  loss = summary.summarize(metrics['loss'], examples, higher_is_better=False)
  if 'accuracy' not in metrics:
    return loss, None
  return loss, summary.summarize(
      metrics['accuracy'], examples, higher_is_better=True
  )


def _tensors(member, path=()):
  """Yields the path and type of each tensor; unnamed ones by position."""
  if isinstance(member, tff.StructType):
    for position, (name, inner) in enumerate(
        tff.structure.iter_elements(member)
    ):
      yield from _tensors(inner, (*path, position if name is None else name))
  elif isinstance(member, tff.TensorType):
    yield path, member


def _number(value) -> float:
  """Returns a scalar as a number, bools as 0 or 1, as tables show them."""
  number = np.asarray(value).item()
  return int(number) if isinstance(number, bool) else number


def _at(structure, path):
  for key in path:
    is_field = isinstance(key, str) and not isinstance(structure, Mapping)
    structure = getattr(structure, key) if is_field else structure[key]
  return structure
