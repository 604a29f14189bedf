"""Local SGD without a copy per client of kernels that are applied to the data.

Let X be the client's rows, X_t = P_t X those of minibatch t, and D_t the
gradient of the loss with respect to the kernel's output. Plain SGD from W_0 is

    W_t = W_0 - X^T U_t,   U_{t+1} = U_t + eta P_t^T D_t,   U_0 = 0
    X_t W_t = P_t (X W_0) - P_t (X X^T) U_t

X W_0 is one product for all steps, and for all clients if they are vectorized;
beyond it the steps need only the Gram matrix X X^T, and a single step does not
even need that. The updated kernel is never written. For the choice of kernels
see `kernel_factors`.

    with factored_sgd.building(max_examples=100) as factors:
      process = method.build(task, hyperparameters)
    factors.names  # Names of kernels held as factors.
"""

import collections
import contextlib
import dataclasses
from typing import Any, Iterator, Mapping, NamedTuple, Optional

import tensorflow as tf

from tff_pers.aggregators import factor_mean
from tff_pers.client_works import client_work
from tff_pers.client_works import kernel_factors
from tff_pers.client_works import local_step
from tff_pers.core import interception
from tff_pers.core import random
from tff_pers.core import round_metrics
from tff_pers.data import batch_tables
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.numerics import low_rank


class Trained(NamedTuple):
  """Weights after local SGD.

  Attributes:
    dense: Weights that are held dense, in order.
    rows: X, floats [R, n], for each kernel that is held as factors.
    moves: U, floats [R, m], for each: the kernel is W_0 - X^T U.
    witness: Tensors that are finite only if all of these and X^T U are. X is
      not among them: an infinite row has infinite products with all others,
      which make the moves NaN.
  """

  dense: tuple[Any, ...]
  rows: tuple[Any, ...]
  moves: tuple[Any, ...]
  witness: Any


def train_by_factors(
    model: functional.FunctionalModel,
    weights: Any,
    data: Mapping[str, Any],
    choice: kernel_factors.Choice,
    *,
    learning_rate: Any,
    seed: tf.Tensor,
    batch_size: int,
    **budget: Any,
) -> tuple[Trained, Any]:
  """Returns (weights after plain SGD, mean minibatch loss over the steps).

  Args:
    model: The model.
    weights: W_0 and all other weights, a structure like `model.spec`.
    data: Dense client data.
    choice: Result of `kernel_factors.chosen`, with at least one kernel.
    learning_rate: eta, a float or a scalar tensor.
    seed: int64[2] key of the batches.
    batch_size: B.
    **budget: `num_steps` or `num_epochs`, see `fold_batches`.
  """
  x, y = data['examples']['x'], data['examples']['y']
  rows, mask, taken = batch_tables.batch_table(
      data['num_examples'], tf.shape(x)[0], seed=seed, batch_size=batch_size,
      **budget,
  )
  # X, and the positions of each batch's rows in it.
  if choice.visited_only:
    held = tf.gather(x, tf.reshape(rows, [-1]))
    places = tf.reshape(tf.range(tf.size(rows)), tf.shape(rows))
  else:
    held, places = client_data.whole_batch(data, seed).x, rows
  num_steps = tf.shape(rows)[0]
  leaves = tf.nest.flatten(weights)
  kernels = [leaves[p] for p in choice.positions]
  products = [
      _Products(kernel_factors.rows_of(held, kernel), kernel, num_steps)
      for kernel in kernels
  ]

  def step(t, dense, moves, total):
    batch = client_data.Batch(
        tf.gather(x, rows[t]), tf.gather(y, rows[t]), mask[t],
        random.fold_in(seed, t),
    )
    loss, gradient, pulls = _gradient(
        model, batch, choice.positions, dense,
        [p.after(m, places[t]) for p, m in zip(products, moves)],
    )
    moves = tuple(
        _moved(move, pull, places[t], learning_rate)
        for move, pull in zip(moves, pulls)
    )
    dense = local_step.descend(dense, gradient, learning_rate)
    return t + 1, dense, moves, total + loss

  start = tuple(
      leaf for p, leaf in enumerate(leaves) if p not in choice.positions
  )
  _, dense, moves, total = tf.while_loop(
      lambda t, *_: t < num_steps, step,
      (
          tf.constant(0), start, tuple(p.no_moves() for p in products),
          tf.zeros([], kernels[0].dtype),
      ),
  )
  mean = total / tf.cast(tf.maximum(taken, 1), total.dtype)
  return Trained(
      dense, tuple(p.rows for p in products), moves,
      witness=[
          dense, moves, [p.bound(m) for p, m in zip(products, moves)]
      ],
  ), mean


class _Products:
  """Products of a kernel and its client's rows, step after step."""

  def __init__(self, rows, kernel, num_steps):
    self.rows = rows
    self._first = tf.matmul(rows, kernel)  # X W_0
    self._gram, self._squares = tf.cond(
        num_steps > 1, lambda: _gram(rows), lambda: _no_gram(rows)
    )

  def no_moves(self):
    """Returns U before the first step."""
    return tf.zeros_like(self._first)

  def bound(self, moves):
    """Returns a bound on the entries of X^T U: |x| |u| sqrt(R) sqrt(R)."""
    norms = tf.sqrt(self._squares)
    return tf.reduce_sum(norms * tf.reduce_sum(tf.abs(moves), axis=1))

  def after(self, moves, places):
    """Returns X_t W_t, [B, m], for U_t and the batch's positions in X."""
    return tf.gather(self._first, places) - tf.matmul(
        tf.gather(self._gram, places), moves
    )


def _gram(rows):
  """Returns X X^T [R, R], and its diagonal, the squared norms of the rows."""
  gram = tf.matmul(rows, rows, transpose_b=True)
  return gram, tf.linalg.diag_part(gram)


def _no_gram(rows):
  """Returns zeros for `_gram`: a single step has no earlier moves."""
  number = tf.shape(rows)[0]
  return (
      tf.zeros([number, number], rows.dtype),
      tf.reduce_sum(tf.square(rows), axis=1),
  )


def _gradient(model, batch, positions, dense, products):
  """Returns (loss, gradient of the dense weights, D of each kernel)."""
  with tf.GradientTape() as tape:
    tape.watch([dense, products])
    given = dict(zip(positions, products))
    rest = iter(dense)

    def known(product) -> low_rank.Product:
      return low_rank.Product(lambda inputs: product)

    leaves = [
        known(given[p]) if p in given else next(rest)
        for p in range(len(dense) + len(products))
    ]
    loss = model.batch_loss(
        tf.nest.pack_sequence_as(model.spec, leaves), batch
    )
  gradient, pulls = tape.gradient(
      loss, (dense, products),
      unconnected_gradients=tf.UnconnectedGradients.ZERO,
  )
  gradient = tf.nest.map_structure(tf.convert_to_tensor, gradient)
  return loss, gradient, pulls


def _moved(moves, pull, places, learning_rate):
  """Returns U + eta P^T D, which changes the rows of the batch."""
  rate = tf.convert_to_tensor(learning_rate, dtype_hint=pull.dtype)
  # A padding example, with D zero, may repeat one of the batch. Segment sums
  # replace scattered rows, which cannot be vectorized.
  return moves + tf.math.unsorted_segment_sum(
      tf.cast(rate, pull.dtype) * pull, places, tf.shape(moves)[0]
  )


def final_weights(
    weights: Any, choice: kernel_factors.Choice, trained: Trained
) -> Any:
  """Returns the weights of `trained`, dense, a structure like `weights`."""
  rest = iter(trained.dense)
  factors = dict(zip(choice.positions, zip(trained.rows, trained.moves)))
  leaves = [
      leaf - tf.matmul(*factors[p], transpose_a=True) if p in factors
      else next(rest) for p, leaf in enumerate(tf.nest.flatten(weights))
  ]
  return tf.nest.pack_sequence_as(weights, leaves)


def update(
    weights: Any, choice: kernel_factors.Choice, trained: Trained
) -> Any:
  """Returns initial minus final weights, see `aggregators.factor_mean`."""
  start = [
      leaf for p, leaf in enumerate(tf.nest.flatten(weights))
      if p not in choice.positions
  ]
  return collections.OrderedDict(
      dense=[a - b for a, b in zip(start, trained.dense)],
      factors=[
          collections.OrderedDict(u=u, v=v)
          for v, u in zip(trained.rows, trained.moves)
      ],
  )


class Factors(interception.Change):
  """Holds kernels as factors in local SGD that is built inside `building`.

  Attributes:
    names: Names of these kernels, in the order of building.
  """

  def __init__(self, max_examples: Optional[int]):
    self._max_examples = max_examples
    self.names: list[str] = []

  def local_sgd(self, train: Any, model: Any, local: Any, budget: Any) -> Any:
    """Returns training with the chosen kernels (if any) as factors."""
    choice = self._choice(model, local, budget)
    if not choice.positions:
      return train

    def train_factored(weights, data, **options):
      if isinstance(data, tf.data.Dataset):
        return train(weights, data, **options)
      trained, loss = train_by_factors(
          model, weights, data, choice, **options, **budget
      )
      return final_weights(weights, choice, trained), loss

    return train_factored

  def sgd_work(self, work: Any, sgd: Any) -> Any:
    """Returns client work that can send its update as factors."""
    choice = self._choice(sgd.model, sgd.local, sgd.budget)
    if not choice.positions:
      return work

    def summed(message, client_state, data):
      initial = message['weights']
      trained, loss = train_by_factors(
          sgd.model, initial, data, choice, **sgd.options(message, data),
          **sgd.budget,
      )
      return sgd.output(
          client_state, data, update(initial, choice, trained), loss
      )._replace(
          bytes_up=round_metrics.payload_bytes(initial),
          witness=trained.witness,
      )

    factory = factor_mean.FactorMeanFactory(sgd.model.spec, choice.positions)
    return dataclasses.replace(work, summed=client_work.Summed(summed, factory))

  def _choice(self, model, local, budget) -> kernel_factors.Choice:
    """Returns the kernels that plain steps hold as factors."""
    if local != local_step.PLAIN:
      return kernel_factors.Choice(())
    choice = kernel_factors.chosen(model, self._max_examples, **budget)
    for name in kernel_factors.names(model, choice):
      if name not in self.names:
        self.names.append(name)
    return choice


@contextlib.contextmanager
def building(
    max_examples: Optional[int] = None, allowed: bool = True
) -> Iterator[Factors]:
  """Within the context, methods hold kernels as factors if that is cheaper.

  Args:
    max_examples: See `kernel_factors.chosen`.
    allowed: False keeps all kernels dense.
  """
  factors = Factors(max_examples)
  with interception.changing(factors if allowed else interception.Change()):
    yield factors
