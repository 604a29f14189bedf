"""Dense client data, and folds over its batches.

The data of a client are `<index, num_examples, examples=<x, y>>`: all examples
as dense tensors. Shuffling, batching and epochs happen inside the computation.
Rows from `num_examples` on are padding and never affect a result.
"""

import collections
from typing import (
    Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence,
)

import numpy as np
import tensorflow as tf

from tff_pers.core import arrays
from tff_pers.core import random
from tff_pers.core import structures
from tff_pers import tff


class Batch(NamedTuple):
  """One minibatch of a client.

  Attributes:
    x: Features, [batch_size, ...]; for several inputs a dict or a tuple.
    y: Labels, [batch_size, ...]; likewise for several outputs.
    mask: bool[batch_size]; False rows are filler of a short last batch.
    seed: int64[2], a key of this step (dropout).
  """

  x: Any
  y: Any
  mask: tf.Tensor
  seed: tf.Tensor


def client_data_type(x_spec: Any, y_spec: Any) -> tff.Type:
  """Returns the TFF type of one client's data.

  The specs of features and labels have the leading dimension None; both may be
  a dict or tuple of specs.
  """
  of = lambda spec, _: tff.TensorType(spec.dtype.as_numpy_dtype, spec.shape)
  return tff.to_type(
      collections.OrderedDict(
          index=np.int32,
          num_examples=np.int32,
          examples=collections.OrderedDict(
              x=structures.mapped(of, x_spec),
              y=structures.mapped(of, y_spec),
          ),
      )
  )


def dense(
    index: int, x: Any, y: Any
) -> collections.OrderedDict[str, Any]:
  """Returns one client's arrays as dense client data.

  Args:
    index: The client's number in 0..N-1; -1: the examples belong to no client.
    x: Features, [num_examples, ...]; also a pandas table, or nested lists. For
      a model with several inputs, a dict or a tuple of such arrays.
    y: Labels, [num_examples, ...]; likewise.

  Raises:
    TypeError: If `index` is not an integer, or `x` or `y` is not an array of
      numbers.
    ValueError: If `x` and `y` differ in length, or examples differ in shape.
  """
  index = arrays.client_index(index, '`index`')
  of = lambda rows, path: arrays.as_array(rows, f'`{path}` of client {index}')
  x, y = structures.mapped(of, x, 'x'), structures.mapped(of, y, 'y')
  sizes = [len(rows) for rows in tf.nest.flatten((x, y))]
  if len(set(sizes)) > 1:
    raise ValueError(
        '`x` and `y` must have one row per example, found'
        f' {" and ".join(map(str, sizes))} rows at client {index}.'
    )
  return collections.OrderedDict(
      index=np.int32(index),
      num_examples=np.int32(sizes[0]),
      examples=collections.OrderedDict(x=x, y=y),
  )


def constant(data: Mapping[str, Any]) -> collections.OrderedDict[str, Any]:
  """Returns dense client data whose arrays can never be changed.

  The fused runtime keeps the stacked data of a cohort. It has to compare arrays
  that may change in every round, which takes half as long as stacking.
  """
  return collections.OrderedDict(
      data,
      examples=tf.nest.map_structure(
          lambda rows: np.frombuffer(rows.tobytes(), rows.dtype).reshape(
              rows.shape
          ), data['examples'],
      ),
  )


def pool(
    clients: Iterable[Mapping[str, Any]]
) -> collections.OrderedDict[str, Any]:
  """Returns the examples of all clients together, in order, as dense data.

  They belong to no client: the index is -1.
  """
  parts = [
      tf.nest.map_structure(
          lambda rows, size=int(data['num_examples']): rows[:size],
          data['examples'],
      )
      for data in clients
  ]
  together = tf.nest.map_structure(lambda *rows: np.concatenate(rows), *parts)
  return dense(-1, together['x'], together['y'])


def pad(
    data: Mapping[str, Any], num_rows: int
) -> collections.OrderedDict[str, Any]:
  """Returns dense client data padded with zero rows to `num_rows` rows."""
  def padded(rows):
    rows = np.asarray(rows)
    if len(rows) > num_rows:
      raise ValueError(
          f'`num_rows` must be >= the {len(rows)} rows of client'
          f" {int(data['index'])}, found {num_rows}."
      )
    widths = [(0, num_rows - len(rows))] + [(0, 0)] * (rows.ndim - 1)
    return np.pad(rows, widths)
  examples = tf.nest.map_structure(padded, data['examples'])
  return collections.OrderedDict(data, examples=examples)


def fold_batches(
    data: Mapping[str, Any],
    step: Callable[..., Any],
    init: Any,
    *,
    seed: tf.Tensor,
    batch_size: Optional[int] = None,
    num_steps: Optional[Any] = None,
    num_epochs: Optional[Any] = None,
    shuffle: bool = True,
    independent: bool = False,
    reports: bool = False,
) -> Any:
  """Returns `step(...step(step(init, batch_0), batch_1)...)`.

  Dense data are visited in epochs, each a fresh permutation cut into batches of
  `batch_size`; the short last batch of an epoch is kept, and its mask is False
  for filler rows. A `tf.data.Dataset` of batches is visited in its own order.
  The batches depend on `seed` and on the examples, not on padding. A client
  without examples takes no step.

  Args:
    data: Dense client data, or a `tf.data.Dataset` of batches `<x, y>`.
    step: `(state, Batch) -> state`, a TensorFlow function of fixed structure.
    init: The initial state, a structure of tensors.
    seed: int64[2], the key of this use of the data.
    batch_size: Rows per batch (dense data only). 0 or None: all rows in one
      batch, in their order, because a sum does not depend on it.
    num_steps: Number of batches to visit, or None.
    num_epochs: Number of passes over the data, or None; exactly one of
      `num_steps` and `num_epochs` must be given.
    shuffle: Whether to permute dense examples in each epoch.
    independent: Whether every row of a batch of dense data is drawn from all
      examples, with replacement, instead of epochs. Only then is the gradient
      of a step independent of those before it, given the weights.
    reports: Whether `step` returns `(state, report)`, the report a scalar such
      as its loss. Then the result is `(state, mean report)`; the mean is 0
      without steps, and of the dtype of the first tensor of `init`, float32 at
      least.

  Raises:
    ValueError: If not exactly one of `num_steps` and `num_epochs` is given.
  """
  return fold_batch_tuples(
      data, lambda state, batches: step(state, batches[0]), init, seeds=(seed,),
      batch_size=batch_size, num_steps=num_steps, num_epochs=num_epochs,
      shuffle=shuffle, independent=independent, reports=reports,
  )


def fold_batch_tuples(
    data: Mapping[str, Any],
    step: Callable[..., Any],
    init: Any,
    *,
    seeds: Sequence[tf.Tensor],
    batch_size: Optional[int] = None,
    num_steps: Optional[Any] = None,
    num_epochs: Optional[Any] = None,
    shuffle: bool = True,
    independent: bool = False,
    reports: bool = False,
) -> Any:
  """Folds over several independent batches per step (see `fold_batches`).

  For dense data, step t gets batch t of every key in `seeds`, as `fold_batches`
  visits it with that key. A `tf.data.Dataset` is cut into runs of `len(seeds)`
  consecutive batches, repeating from its start as needed, so that the batches
  of a step differ only if it has as many batches.

  `step` is `(state, tuple of Batch) -> state`. The keys `seeds`, int64[2] each,
  are one per independent use of the data; `num_epochs` is the number of steps
  in passes over the data, or None. For all others see `fold_batches`.

  Raises:
    ValueError: If not exactly one of `num_steps` and `num_epochs` is given.
  """
  if (num_steps is None) == (num_epochs is None):
    raise ValueError(
        'Exactly one of `num_steps` and `num_epochs` must be given, found'
        f' num_steps={num_steps} and num_epochs={num_epochs}.'
    )

  def summing(carry, batches):
    state, total, count = carry
    state, report = step(state, batches)
    if report.dtype.size == 2:
      report = tf.cast(report, tf.float32)
    return state, total + report, count + 1

  carry, visit = init, step
  if reports:
    # The report itself is not known before the loop is traced, and a loop
    # variable cannot change its dtype.
    dtype = tf.nest.flatten(init)[0].dtype
    if dtype.size == 2:  # A sum of many steps needs more than half precision.
      dtype = tf.float32
    carry, visit = (init, tf.zeros([], dtype), tf.constant(0)), summing
  if isinstance(data, tf.data.Dataset):
    final = _fold_dataset(data, visit, carry, seeds, num_steps, num_epochs)
  else:
    final = _fold_dense(
        data, visit, carry, seeds, batch_size=batch_size, num_steps=num_steps,
        num_epochs=num_epochs, shuffle=shuffle, independent=independent,
    )
  if not reports:
    return final
  state, total, count = final
  return state, total / tf.cast(tf.maximum(count, 1), total.dtype)


def _fold_dense(data, step, init, seeds, **options):
  """Folds over dense data; `options` are arguments of `batch_rows`."""
  examples = data['examples']
  if _is_whole(options['batch_size']):
    # All rows at once, without copying them into batches.
    batch = whole_batch(data, seeds[0])
    steps = options['num_steps']
    steps = options['num_epochs'] if steps is None else steps
    steps = tf.where(data['num_examples'] > 0, steps, 0)
    batches = lambda t: tuple(
        batch._replace(seed=random.fold_in(seed, t)) for seed in seeds
    )
  else:
    uses = [
        batch_rows(
            data['num_examples'], structures.num_rows(examples), seed=seed,
            **options
        )
        for seed in seeds
    ]
    steps = tf.shape(uses[0][0])[0]
    batches = lambda t: tuple(
        Batch(
            **structures.take(examples, rows[t]), mask=mask[t],
            seed=random.fold_in(seed, t),
        )
        for seed, (rows, mask) in zip(seeds, uses)
    )
  def body(t, state):
    return t + 1, step(state, batches(t))
  return tf.while_loop(
      lambda t, _: t < steps, body, (tf.constant(0), init)
  )[1]


def whole_batch(data: Mapping[str, Any], seed: tf.Tensor) -> Batch:
  """Returns all rows as one batch, in their order; padding is masked filler."""
  examples = data['examples']
  size = structures.num_rows(examples)
  rows = filler(tf.range(size), data['num_examples'])
  return Batch(
      **structures.take(examples, rows),
      mask=tf.range(size) < data['num_examples'], seed=seed,
  )


def filler(positions: tf.Tensor, num_examples: tf.Tensor) -> tf.Tensor:
  """Returns positions, int32 >= 0, those beyond the examples moved to the last.

  So masked rows repeat a real one. Padding may hold anything, and a loss that
  is not finite there would make the gradient NaN even if it is masked.
  """
  last = tf.convert_to_tensor(num_examples, tf.int32) - 1
  return tf.minimum(positions, tf.maximum(last, 0))


def batches_per_epoch(
    num_examples: tf.Tensor, batch_size: Optional[int]
) -> tf.Tensor:
  """Returns ceil(n / B), int32; 1 with all rows in one batch (B = 0, None)."""
  if _is_whole(batch_size):
    return tf.cast(num_examples > 0, tf.int32)
  return -(-num_examples // batch_size)  # Counts a short last batch.


def _is_whole(batch_size) -> bool:
  # A tensor has no truth value here, and is never 0.
  return batch_size is None or (not tf.is_tensor(batch_size) and not batch_size)


def batch_rows(
    num_examples: tf.Tensor, capacity: int, *, seed: tf.Tensor,
    batch_size: Optional[int], num_steps: Optional[Any] = None,
    num_epochs: Optional[Any] = None, shuffle: bool = True,
    independent: bool = False,
) -> Any:
  """Returns the rows of each batch, see `fold_batches`.

  Of `capacity` rows only the first `num_examples` count.

  Returns:
    `rows` int32[T, batch_size] and `mask` bool[T, batch_size] for T steps; T is
    0 when `num_examples` is 0.
  """
  num_examples = tf.convert_to_tensor(num_examples, tf.int32)
  per_epoch = batches_per_epoch(num_examples, batch_size)
  if num_steps is None:
    num_steps = num_epochs * per_epoch
  num_steps = tf.where(num_examples > 0, num_steps, 0)
  if independent:
    rows = tf.random.stateless_uniform(
        [num_steps, batch_size], seed, maxval=tf.maximum(num_examples, 1),
        dtype=tf.int32,
    )
    return rows, tf.ones_like(rows, tf.bool)
  epochs = -(-num_steps // tf.maximum(per_epoch, 1))
  # Entry i of a stateless draw does not depend on the number of entries. With
  # the example as the leading axis, more padding only appends keys, and the
  # examples keep theirs.
  if shuffle:
    order_keys = tf.random.stateless_uniform([capacity, epochs], seed)
  else:
    order_keys = tf.zeros([capacity, epochs])
  order = orders(order_keys, num_examples, capacity)
  position = tf.range(per_epoch * batch_size)
  # A batch has a fixed number of rows, so the last one of an epoch is padded
  # with existing rows that are masked.
  rows = tf.gather(order, filler(position, num_examples), axis=0)
  mask = tf.broadcast_to((position < num_examples)[:, None], tf.shape(rows))
  # Transposed first, so that all batches of an epoch precede those of the next
  # epoch.
  def batches(table):  # [per_epoch * batch_size, epochs] -> [T, size]
    return tf.reshape(tf.transpose(table), [-1, batch_size])[:num_steps]
  return batches(rows), batches(mask)


def orders(
    keys: tf.Tensor, num_examples: tf.Tensor, capacity: int
) -> tf.Tensor:
  """Returns the order of all rows in each epoch, int32[capacity, epochs].

  Rows with smaller keys, float32[capacity, epochs] below 1, come first, and
  those that do not count, from `num_examples` on, last.
  """
  # The sort is stable because equal keys (without shuffling) must keep the
  # order of the examples.
  is_padding = tf.range(capacity)[:, None] >= num_examples
  return tf.argsort(tf.where(is_padding, 2.0, keys), axis=0, stable=True)


def _fold_dataset(dataset, step, init, seeds, num_steps, num_epochs):
  """Folds over a `tf.data.Dataset`, `len(seeds)` batches per step."""
  width = len(seeds)
  if num_epochs is not None:
    batches = dataset.repeat(num_epochs * width)
  else:
    batches = dataset.repeat().take(num_steps * width)
  # Stream u gets batch u of every run of `width` consecutive batches.
  streams = tuple(batches.shard(width, use) for use in range(width))
  def reduce_fn(carry, elements):
    t, state = carry
    batches = []
    for seed, xy in zip(seeds, elements):
      x, y = (xy['x'], xy['y']) if isinstance(xy, dict) else xy
      mask = tf.ones([structures.num_rows(y)], tf.bool)
      batches.append(Batch(x, y, mask, random.fold_in(seed, t)))
    return t + 1, step(state, tuple(batches))
  return tf.data.Dataset.zip(streams).reduce(
      (tf.constant(0), init), reduce_fn
  )[1]
