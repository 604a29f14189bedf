"""Rounds of a composed method in eager TensorFlow, without TFF.

Building a method takes half a second or more, nearly all of it to trace
computations. What `compose` is given are TensorFlow functions: called as they
are, with arrays, they give the first numbers of a run in a hundredth of that.
A round is that of `composer.compose` except that nobody is dropped, and that
messages which arrive by themselves (`aggregators.arrivals`) do so one by one.
"""

import collections
import functools
from typing import Any, Iterator

import numpy as np
import tensorflow as tf

from tff_pers import tff
from tff_pers.aggregators import absence
from tff_pers.aggregators import arrivals
from tff_pers.aggregators import structure
from tff_pers.composition import deployment
from tff_pers.composition import dispatch
from tff_pers.composition import own_messages
from tff_pers.core import random

NUM_CLIENTS = 3  # Of two there are no choices among others.
NUM_ROUNDS = 2
SEED = 3


class Composed:
  """What a method consists of; takes the arguments of `compose`."""

  def __init__(
      self, model, *, init, send, work, finalize, deploy, client_model,
      aggregator=None, init_client=lambda seed: (), init_each_client=False,
      deployed=None, measure=None, tiers=None,
  ):
    self._init, self._send, self._work = init, send, work
    self._finalize, self._measure = finalize, measure
    self._deploy, self._client_model = deploy, client_model
    self._aggregator, self._tiers = aggregator, tiers or {}
    self._init_client, self._each = init_client, init_each_client
    self._deployed = deployed or model

  def numbers(self, task: Any) -> Iterator[Any]:
    """Yields what a run computes, in order, structures of tensors.

    Args:
      task: Its first clients take part; one that never did deploys, too.
    """
    train, test = (
        [tf.nest.map_structure(tf.constant, each) for each in data]
        for data in (task.train[:NUM_CLIENTS], task.test[:NUM_CLIENTS])
    )
    seed, indices = tf.constant(SEED, tf.int64), list(range(NUM_CLIENTS))
    state = collections.OrderedDict(
        seed=seed, round=tf.constant(0), aggregator=(),
        **_tensors(dict(self._init(seed))),
    )
    yield state
    clients = [self._new_client(state, i) for i in indices]
    yield clients
    for _ in range(NUM_ROUNDS):
      outputs = []
      for i, message in enumerate(self._messages(state, indices)):
        outputs.append(self._work.update(message, clients[i], train[i]))
        yield outputs[-1]
      clients = [output.client_state for output in outputs]
      for result in self._aggregates(outputs):
        if self._measure is not None:
          yield self._measure(state, result)
        state.update(_tensors(dict(self._finalize(state, result))))
        yield state
      state['round'] += 1
    if not hasattr(self._send, 'num_clients'):  # Else each has a row.
      indices.append(task.num_clients)
      clients.append(self._new_client(state, task.num_clients))
      train.append(dict(train[0], index=tf.constant(task.num_clients)))
      test.append(test[0])
    own, deploy = self._own(state, indices, clients, train), self._deploy
    if isinstance(deploy, deployment.Choosing):
      scores = [deploy.score(*each) for each in own]
      yield scores
      best = tf.argmax(tf.add_n(scores), output_type=tf.int32)
      own, deploy = [(*each, best) for each in own], deploy.deploy
    for i, each in enumerate(own):
      found = deploy(*each)
      yield found
      weights = getattr(found, 'weights', found)
      yield deployment.deployed_metrics(self._deployed, weights, test[i])
      yield self._client_model(state, clients[i], tf.constant(indices[i]))
    for tier in self._tiers.values():
      yield deployment.tier_metrics(tier, state, test[0])

  def _new_client(self, state, index):
    return self._init_client(
        random.seed(state['seed'], tf.constant(index))
        if self._each else state['seed']
    )

  def _messages(self, state, indices):
    """Returns the messages to these clients."""
    send = self._send
    if callable(send):
      found = [send(state)] * len(indices)
    elif isinstance(send, own_messages.Row):
      found = [send.select(state, tf.constant(i)) for i in indices]
    elif isinstance(send, own_messages.Numbered):
      found = [dict(send.fields(state)) for _ in indices]
      for place, fields in enumerate(found):
        fields[send.number] += place
    else:
      value = send.prepare(state, tf.constant(indices))
      found = [send.select(value, tf.constant(i)) for i in indices]
    return [dispatch.fields_of(state, fields) for fields in found]

  def _aggregates(self, outputs):
    """Returns what the server gets, one aggregate after another."""
    updates = [_tensors(output.update) for output in outputs]
    weights = [tf.convert_to_tensor(output.weight) for output in outputs]
    if not tf.nest.flatten(updates):
      return [()]
    if self._aggregator is None:
      return [_mean(updates, weights)]
    arrive = isinstance(self._aggregator, arrivals.ArrivalsFactory)
    cohorts = zip(updates, weights) if arrive else [(updates, weights)]
    return [
        _aggregated(self._aggregator, *([x] if arrive else x for x in cohort))
        for cohort in cohorts
    ]

  def _own(self, state, indices, clients, data):
    """Returns what clients deploy from: message, own state and data of each."""
    if dispatch.is_of_cohort(self._send):
      messages = [dispatch.fields_of(state, {})] * len(indices)
    else:
      messages = self._messages(state, indices)
    return list(zip(messages, clients, data))


def _tensors(structure_):
  """Returns a structure without Python's numbers, as a computation does."""
  return tf.nest.map_structure(tf.convert_to_tensor, structure_)


def _mean(updates, weights):
  """Returns the weighted mean, 0 if all weights are."""
  def of(*leaves):
    total = sum(tf.cast(w, x.dtype) * x for w, x in zip(weights, leaves))
    return tf.math.divide_no_nan(total, tf.cast(sum(weights), total.dtype))

  return tf.nest.map_structure(of, *updates)


def _aggregated(factory, updates, weights):
  """Returns the result of a factory, in its first round."""
  if isinstance(factory, collections.abc.Mapping):
    factory = structure.StructureFactory(factory)
  process = _created(
      _Named(absence.leave_out_absent(factory)), _type(updates), _type(weights)
  )
  found = process.next(
      process.initialize(), tf.nest.map_structure(np.asarray, updates),
      [np.asarray(weight) for weight in weights],
  )
  return _tensors(found.result)


@functools.lru_cache(maxsize=None)
def _created(named, *types):
  return named.factory.create(*types)


class _Named:
  """A factory, equal to those of the same values."""

  def __init__(self, factory):
    self.factory, self._text = factory, _spelled(factory)

  def __hash__(self):
    return hash(self._text)

  def __eq__(self, other):
    return self._text == other._text


def _spelled(value):
  """Returns a text of a factory: its class, and its values."""
  if isinstance(value, dict):
    return str({name: _spelled(part) for name, part in value.items()})
  if isinstance(value, (list, tuple)):
    return str([type(value), *map(_spelled, value)])
  if isinstance(value, (
      tff.aggregators.UnweightedAggregationFactory,
      tff.aggregators.WeightedAggregationFactory,
  )):
    return f'{type(value)} {_spelled(vars(value))}'
  return repr(value)


def _type(values):
  """Returns the type of which the values, structures of tensors, are."""
  def of(*leaves):
    shapes = np.array([leaf.shape.as_list() for leaf in leaves])
    sizes = zip(*shapes.tolist()) if shapes.size else ()
    return tff.TensorType(leaves[0].dtype.as_numpy_dtype, [
        each[0] if len(set(each)) == 1 else None for each in sizes
    ])

  return tff.to_type(tf.nest.map_structure(of, *values))
