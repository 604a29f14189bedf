"""Chooses the kernels that `factored_sgd` holds as factors.

A step of SGD changes a dense kernel [n, m] that is applied to the data by
eta X_t^T D: X_t are the rows of the minibatch, D the gradient of the loss with
respect to the product. After any number of steps it is W_0 - X^T U, where X
[R, n] are the client's examples, or those that its steps visit if these are
fewer, and U [R, m] sums the contributions of the steps to each row. If R is
below n and m, storing U is cheaper than a kernel per client.

The choice is made when a method is built, from shapes only, so that it is the
same in every round and on every runtime. It changes numbers only by rounding.
"""

from typing import Any, NamedTuple, Optional, Sequence

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.numerics import low_rank

# Operations that keep the entries of each row, in their order. Any other might
# mix rows, move entries, or depend on weights.
_KEEPS_ROWS = frozenset({
    'Cast', 'Const', 'ExpandDims', 'Identity', 'Reshape', 'Squeeze',
})
# Batches of any other size would also work; odd, so that it is unlikely to
# equal another dimension.
_TRIAL_ROWS = 7


class Choice(NamedTuple):
  """The kernels held as factors.

  Attributes:
    positions: Positions of the kernels in `tf.nest.flatten` of the weights,
      ascending.
    visited_only: Whether R counts only the rows that the steps visit, not all
      examples.
  """

  positions: tuple[int, ...]
  visited_only: bool = False


def chosen(
    model: functional.FunctionalModel,
    max_examples: Optional[int],
    *,
    batch_size: Optional[int],
    num_steps: Optional[int] = None,
    num_epochs: Optional[int] = None,
    shuffle: bool = True,
) -> Choice:
  """Returns the kernels to hold as factors, possibly none.

  Args:
    model: The model that is trained by plain gradient steps.
    max_examples: Largest number of examples of a client; clients with more are
      slower, but correct. None: unknown; then the number of rows visited in
      local epochs is unknown too.
    batch_size: See `client_data.fold_batches`, also for what follows.
    num_steps: Number of steps.
    num_epochs: Number of passes.
    shuffle: Whether examples are permuted.
  """
  del num_epochs, shuffle  # Neither matters.
  if not batch_size or any(map(tf.is_tensor, (batch_size, num_steps))):
    return Choice(())
  rows, visited_only = max_examples, False
  if num_steps is not None:
    visited = num_steps * batch_size
    if rows is None or visited < rows:
      rows, visited_only = visited, True
  small = [] if rows is None else _candidates(model, rows)
  fed = _fed_by_data(model, small) if small else ()
  return Choice(tuple(p for p in small if p in fed), visited_only)


def names(model: functional.FunctionalModel, choice: Choice) -> list[str]:
  """Returns the names of the chosen kernels."""
  layers = model.layers or ()  # Without layers no kernel is chosen.
  return [f'{model.name}/{layers[p].name}' for p in choice.positions]


def _candidates(model, rows: int) -> list[int]:
  """Returns the positions of dense kernels that are larger than factors."""
  # A penalty moves the whole kernel, which factors cannot represent.
  is_plain = model.takes_factors and model.penalty is functional.no_penalty
  is_plain = is_plain and not model.statistics  # Statistics have other steps.
  if not is_plain or model.layers is None or model.frozen is not None:
    return []
  return [
      position for position, weight in enumerate(model.layers)
      if weight.kind == 'dense' and rows < min(weight.shape)
  ]


def _fed_by_data(model, positions: Sequence[int]) -> set[int]:
  """Returns the positions whose kernel is applied to rows of x, once only."""
  met: dict[int, list] = {position: [] for position in positions}
  found: set[int] = set()

  def trial(x, seed, *leaves):
    def listening(position):
      def product(inputs):
        met[position].append(inputs)
        return tf.matmul(inputs, leaves[position])
      return low_rank.Product(product)

    replaced = [
        listening(p) if p in met else leaf for p, leaf in enumerate(leaves)
    ]
    model.predict(
        tf.nest.pack_sequence_as(model.spec, replaced), x, True, seed
    )
    found.update(
        position for position, inputs in met.items()
        if len(inputs) == 1 and _are_rows_of(inputs[0], x)
    )
    return seed

  # A function, not a separate graph: a model may hold tensors of the graph that
  # is being traced, e.g. if its other weights are fixed.
  tf.function(trial, autograph=False).get_concrete_function(
      tf.TensorSpec([_TRIAL_ROWS, *model.x_spec.shape[1:]], model.x_spec.dtype),
      tf.TensorSpec([2], tf.int64),
      *(tf.TensorSpec(s.shape, s.dtype) for s in tf.nest.flatten(model.spec)),
  )
  return found


def _are_rows_of(inputs, x) -> bool:
  """Whether `inputs` are the rows of x, at most flattened and cast."""
  if inputs.shape.rank != 2 or inputs.shape[0] != _TRIAL_ROWS:
    return False
  entries = x.shape.num_elements()
  if entries is None or inputs.shape.num_elements() != entries:
    return False
  todo = [inputs]
  while todo:
    tensor = todo.pop()
    if tensor is x:
      continue
    if tensor.op.type not in _KEEPS_ROWS:
      return False
    todo.extend(tensor.op.inputs)
  return True


def rows_of(x: tf.Tensor, kernel: Any) -> tf.Tensor:
  """Returns the rows to which a chosen kernel is applied, [rows, n].

  Args:
    x: Examples of the model, [rows, ...].
    kernel: The kernel [n, m].
  """
  # `_are_rows_of` has checked that the model does exactly this.
  return tf.cast(tf.reshape(x, [-1, kernel.shape[0]]), kernel.dtype)
