"""Variable-free models with a stateless seed.

A model is a few pure functions of a structure of weights. Nothing is hidden in
variables, so that weights can be stored in a table, mixed, or sent.
"""

import collections
import dataclasses
import functools
from typing import Any, Callable, Mapping, NamedTuple, Optional

import tensorflow as tf

from tff_pers.core import random
from tff_pers.core import structures
from tff_pers.models import moving_statistics
from tff_pers import tff

_INIT_USE = -1  # Folded into the run's seed.


class LayerWeight(NamedTuple):
  """Describes one leaf of the weights, for code that treats layers separately.

  Attributes:
    name: Unique within the model, e.g. 'conv_0/kernel'.
    layer: Name of its layer, the same for a kernel and its bias, and for all
      weights of a recurrent layer or of a block of a transformer.
    kind: 'dense' (kernel [n, m], also of recurrent layers), 'conv' (kernel
      [height, width, in, out]), 'depthwise' (kernel [height, width, in,
      multiplier]), 'einsum' (kernel of any other product, as the projections
      of attention), 'embedding' ([vocabulary, dimension]), 'vector' (kernel [n]
      of a single output), 'bias', 'norm' (scale or offset of a normalization),
      'statistics' (see `moving_statistics`), 'adaptor' (a factor or a change
      of one of these), 'unknown', or any other word.
    shape: Its shape.
    summed_axes: For kind 'einsum': the axes of the kernel that are summed over,
      ascending; the output has the others.
    applied: When its layer is applied, a rank among all layers, if these do not
      stand in the order in which they are applied; 0: they do.
  """

  name: str
  layer: str
  kind: str
  shape: tuple[int, ...]
  summed_axes: tuple[int, ...] = ()
  applied: int = 0


class Units(NamedTuple):
  """The hidden units along an axis of a weight.

  Attributes:
    group: Name of the units; axes of one group index the same units, so that
      they are cut alike (see `submodels`).
    size: Number C of units.
    positions: How many times the axis repeats them: entry p C + c of the axis
      is unit c at position p, as in an image that was flattened.
  """

  group: str
  size: int
  positions: int = 1


class Frozen(NamedTuple):
  """Weights of a network that are not weights of its model and not trained.

  Both together are all weights, a tuple in the network's own order.

  Attributes:
    join: `(weights of the model) -> all weights`; the frozen ones are
      constants.
    layers: Descriptions of all weights.
    dtype: Dtype of the weights of the model, and of frozen kernels.
    predict: Like the model's, as a function of all weights.
    penalty: Like the model's, as a function of all weights.
  """

  join: Callable[[Any], tuple[Any, ...]]
  layers: tuple[LayerWeight, ...]
  dtype: tf.DType
  predict: Callable[[Any, Any, bool, Any], Any]
  penalty: Callable[[Any], Any]


class State(NamedTuple):
  """A metric that is a function of sums over examples, e.g. AUC.

  Attributes:
    sums: `(y, predictions, weight: float[batch]) -> a structure of floats`,
      over rows of weight 1 only; those of two batches are added.
    result: `(sums) -> float32 scalar`.
  """

  sums: Callable[[Any, Any, Any], Any]
  result: Callable[[Any], Any]


def init_key(seed: tf.Tensor) -> tf.Tensor:
  """Returns the key of the initial weights of a run, int64[2]."""
  return random.key(seed, _INIT_USE)


def no_penalty(weights: Any) -> tf.Tensor:
  """Returns 0.0, the penalty of a model without one."""
  del weights
  return 0.0


@dataclasses.dataclass(frozen=True)
class FunctionalModel:
  """A model as pure functions of its weights.

  Attributes:
    init: `(seed: int64[2]) -> weights`, a structure of float tensors of one
      dtype; empty only if all weights are frozen.
    predict: `(weights, x, training: bool, seed: int64[2]) -> predictions`, with
      x [batch, ...] and predictions [batch, ...]; `seed` feeds dropout. The
      batch's size may be unknown when it is traced.
    example_loss: `(y, predictions) -> loss per example`, [batch].
    x_spec: Spec of x; leading dimension None. For several inputs, a dict or a
      tuple of specs, and x is one of tensors.
    y_spec: Spec of y, likewise; for several outputs, predictions have the same
      form.
    metrics: Further per-example metrics by name, e.g. accuracy:
      `(y, predictions) -> [batch]`.
    weights_of: For 'loss' and for metrics by name: `(y) -> [batch]`, the whole
      number of units >= 0, e.g. tokens, over which an example's value is the
      mean. Means are then over units; without an entry they are over examples.
    targets: `(x, y) -> y` for loss, metrics and weights_of, if it depends on x,
      e.g. on which steps of a text are padding; None: y itself.
    states: Metrics that are not means over examples, by name.
    probabilities: Whether predictions for labels are probabilities, not logits.
      For several outputs, a list.
    penalty: `(weights) -> scalar`, added to the mean loss of every batch (L2
      regularization); reported losses include it.
    name: For tables and messages.
    layers: Descriptions of the leaves of the weights, in the order of
      `tf.nest.flatten`; None: unknown, see `layers.describe`.
    takes_factors: Whether `predict` also accepts kernels as `low_rank.Factors`,
      and dense ones as `low_rank.UpdatedMatrix`: it uses dense kernels only in
      `low_rank.matmul`, and kernels of convolutions only in `low_rank.conv2d`.
    full_rank: Names of the layers that keep their full rank when the model is
      factorised; empty: the rule of `factorized.layers_of_full_rank`.
    slim: `(width: float, rounding: str) -> FunctionalModel`, the same
      architecture with the widths of hidden layers scaled, see
      `submodels.num_kept`; None: the model has only one size.
    units: For each leaf of the weights the `Units` of each axis, None for an
      axis that is never cut; None: unknown.
    frozen: The weights that are not trained, which adaptors may change; None:
      there are none.
    to_base: `(weights) -> weights of the model that this one was made from`, if
      this model's weights are another form of these, e.g. factors; None: they
      are these, or several models.
    labels: The `labels.Labels` that y holds; None: others, or unknown. For
      several outputs, a list in the order of `tf.nest.flatten`.
    holds: What data of a client its weights store unchanged, in words; empty
      for models that were only trained on data.
  """

  init: Callable[[Any], Any]
  predict: Callable[[Any, Any, bool, Any], Any]
  example_loss: Callable[[Any, Any], Any]
  x_spec: Any
  y_spec: Any
  metrics: Mapping[str, Callable[[Any, Any], Any]] = dataclasses.field(
      default_factory=dict
  )
  weights_of: Mapping[str, Callable[[Any], Any]] = dataclasses.field(
      default_factory=dict
  )
  targets: Optional[Callable[[Any, Any], Any]] = None
  states: Mapping[str, State] = dataclasses.field(default_factory=dict)
  probabilities: Any = False
  penalty: Callable[[Any], Any] = no_penalty
  name: str = 'model'
  layers: Optional[tuple[LayerWeight, ...]] = None
  takes_factors: bool = False
  full_rank: tuple[str, ...] = ()
  slim: Optional[Callable[..., 'FunctionalModel']] = None
  units: Optional[tuple[tuple[Optional[Units], ...], ...]] = None
  frozen: Optional[Frozen] = None
  to_base: Optional[Callable[[Any], Any]] = None
  labels: Any = None
  holds: str = ''

  def initial_weights(self, seed: tf.Tensor) -> Any:
    """Returns w^0 of the run `seed`, which is the same in every method.

    Args:
      seed: int64 scalar, the run's seed.
    """
    return self.init(init_key(seed))

  @property
  def weights_type(self) -> tff.Type:
    """TFF type of the weights."""
    return tff.tensorflow.computation(
        lambda: self.init(tf.zeros([2], tf.int64))
    ).type_signature.result

  @property
  def num_parameters(self) -> int:
    """Number of scalars in the weights."""
    return sum(
        leaf.shape.num_elements() for leaf in tf.nest.flatten(self.spec)
    )

  @functools.cached_property
  def spec(self) -> Any:
    """Structure of `tf.TensorSpec`s of the weights."""
    # Only traced: no weight is computed to get its shape.
    function = tf.function(self.init, autograph=False).get_concrete_function(
        tf.TensorSpec([2], tf.int64)
    )
    return tf.nest.map_structure(
        lambda t: tf.TensorSpec(t.shape, t.dtype), function.structured_outputs
    )

  @property
  def dtype(self) -> tf.DType:
    """The one dtype of the weights."""
    leaves = tf.nest.flatten(self.spec)
    if leaves:
      return leaves[0].dtype
    assert self.frozen is not None  # A model has weights.
    return self.frozen.dtype

  @functools.cached_property
  def statistics(self) -> tuple[bool, ...]:
    """Whether each leaf is a moving statistic; (): none is."""
    found = tuple(x.kind == moving_statistics.KIND for x in self.layers or ())
    return found if any(found) else ()

  @property
  def num_outputs(self) -> int:
    """Number of outputs, each with its own labels."""
    return len(tf.nest.flatten(self.y_spec))

  @property
  def has_one_label(self) -> bool:
    """Whether y is one number per example."""
    return self.num_outputs == 1 and self.y_spec.shape.rank == 1

  def require_one_output(self, what: str) -> None:
    """Raises if the model has several outputs.

    Args:
      what: For the message: what needs a single output, and why.

    Raises:
      ValueError: If there are several outputs.
    """
    if self.num_outputs > 1:
      raise ValueError(
          f'`model` must have one output with {what}, found'
          f' {self.num_outputs} of {self.name}.'
      )

  def targets_of(self, x: Any, y: Any) -> Any:
    """Returns y in the form that losses, metrics and `row_weights` take.

    Args:
      x: Features, [batch, ...].
      y: Labels, [batch, ...].
    """
    return y if self.targets is None else self.targets(x, y)

  @property
  def of_all_weights(self) -> 'FunctionalModel':
    """The model over all weights; this model if none are frozen."""
    if self.frozen is None:
      return self
    return dataclasses.replace(
        self, init=lambda seed: self.all_weights(self.init(seed)),
        predict=self.frozen.predict, penalty=self.frozen.penalty,
        layers=self.frozen.layers, frozen=None,
    )

  def all_weights(self, weights: Any) -> Any:
    """Returns weights of `of_all_weights`: `weights` with the frozen ones.

    Args:
      weights: Weights of this model.
    """
    return weights if self.frozen is None else self.frozen.join(weights)

  def penalty_by(self, penalty: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the penalty of a model that wraps this one.

    Args:
      penalty: The wrapper's penalty, a function of its weights; it is not used
        if this model has none.
    """
    # `no_penalty` is recognized by identity, so it must be returned itself.
    return self.penalty if self.penalty is no_penalty else penalty

  def batch_loss(
      self, weights: Any, batch: Any, training: bool = True
  ) -> tf.Tensor:
    """Returns the mean loss over the unmasked rows of `batch`, plus penalty.

    If the loss has `weights_of`, the mean is over units. A scalar with the
    dtype of the example losses.

    Args:
      weights: Weights of the model.
      batch: A `client_data.Batch`.
      training: Whether dropout is on.

    Raises:
      ValueError: If the loss does not give one value per example.
    """
    predictions = self.predict(weights, batch.x, training, batch.seed)
    losses = self.example_loss(self.targets_of(batch.x, batch.y), predictions)
    # A batch with only filler rows has loss 0, not 0 / 0.
    count = tf.maximum(self.batch_weight(batch, losses.dtype), 1)
    total = self._total('loss', losses, batch)
    return total / count + tf.cast(self.penalty(weights), losses.dtype)

  def row_weights(
      self, y: Any, dtype: tf.DType, name: str = 'loss'
  ) -> tf.Tensor:
    """Returns the weight of each row in the mean `name`, [batch].

    This is its number of units if the mean has `weights_of`, else 1.

    Args:
      y: Labels, [batch, ...], as `targets_of` returns them.
      dtype: Dtype of the result.
      name: 'loss', or the name of a metric.
    """
    if name not in self.weights_of:
      return tf.ones([structures.num_rows(y)], dtype)
    return tf.cast(self.weights_of[name](y), dtype)

  def batch_weight(
      self, batch: Any, dtype: tf.DType, name: str = 'loss'
  ) -> tf.Tensor:
    """Returns the number of rows or units in the mean `name` of a batch.

    Args:
      batch: A `client_data.Batch`; rows that are masked do not count.
      dtype: Dtype of the result, a scalar.
      name: 'loss', or the name of a metric.
    """
    mask = tf.cast(batch.mask, dtype)
    if name in self.weights_of:
      y = self.targets_of(batch.x, batch.y)
      mask *= self.row_weights(y, dtype, name)
    return tf.reduce_sum(mask)

  def _total(self, name: str, values, batch):
    """Returns the sum over the unmasked rows or their units."""
    if values.shape.rank != 1:
      shapes = [str(y.shape) for y in tf.nest.flatten(batch.y)]
      raise ValueError(
          f'The {name} of {self.name} must be one value per example, [batch],'
          f' found {values.shape}, for labels of shape {", ".join(shapes)}.'
      )
    if name in self.weights_of:
      y = self.targets_of(batch.x, batch.y)
      values *= self.row_weights(y, values.dtype, name)
    # `where`, not a product with the mask: an infinite loss in a filler row
    # times 0 would be NaN.
    return tf.reduce_sum(tf.where(batch.mask, values, tf.zeros_like(values)))

  def loss_and_gradient(
      self, weights: Any, batch: Any, training: bool = True
  ) -> tuple[tf.Tensor, Any]:
    """Returns `batch_loss` and its gradient, a structure like `weights`.

    The gradient has, for a moving statistic (`statistics`), the change by this
    batch, which is to be subtracted unscaled: see `local_step`.

    Args:
      weights: Weights of the model, at which the gradient is taken.
      batch: A `client_data.Batch`.
      training: Whether dropout is on.

    Raises:
      ValueError: See `batch_loss`.
    """
    if self.statistics:  # Layers must get the very tensors of these leaves.
      weights = tf.nest.map_structure(tf.convert_to_tensor, weights)
    moving = moving_statistics.recording(batch.mask)
    with tf.GradientTape() as tape, moving as moved:
      # A tape watches variables automatically, but not tensors.
      tape.watch(weights)
      loss = self.batch_loss(weights, batch, training)
    # Weights that the loss does not use get zeros rather than None, which could
    # not be averaged.
    gradient = tape.gradient(
        loss, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # The gradient of an embedding is an `IndexedSlices`; averages and norms
    # expect tensors.
    gradient = tf.nest.map_structure(tf.convert_to_tensor, gradient)
    return loss, at_statistics(
        self.statistics, lambda g, w: w - moved.after(w), gradient, weights
    )

  def batch_statistics(self, weights: Any, batch: Any) -> Any:
    """Returns `weights` with moving statistics replaced by the batch's.

    Args:
      weights: Weights of the model.
      batch: A `client_data.Batch`.
    """
    weights = tf.nest.map_structure(tf.convert_to_tensor, weights)
    with moving_statistics.recording(batch.mask, of_batch=True) as found:
      self.predict(weights, batch.x, True, batch.seed)
    return at_statistics(self.statistics, found.after, weights)

  def metric_sums(
      self, weights: Any, batch: Any
  ) -> collections.OrderedDict[str, Any]:
    """Returns sums over unmasked rows: loss without penalty, and metrics.

    Sums with `weights_of` are over units; see `metric_weights`. Scalars by
    name, float32 for metrics; structures for `states`.

    Args:
      weights: Weights of the model; dropout is off.
      batch: A `client_data.Batch`.

    Raises:
      ValueError: If a function does not give one value per example.
    """
    predictions = self.predict(weights, batch.x, False, batch.seed)
    y = self.targets_of(batch.x, batch.y)
    losses = self.example_loss(y, predictions)
    if losses.dtype.size == 2:  # Half precision has no sum of many rows.
      losses = tf.cast(losses, tf.float32)
    sums = collections.OrderedDict(loss=self._total('loss', losses, batch))
    for name, metric in self.metrics.items():
      values = tf.cast(metric(y, predictions), tf.float32)
      sums[name] = self._total(name, values, batch)
    weight = tf.cast(batch.mask, tf.float32)
    for name, state in self.states.items():
      sums[name] = state.sums(y, predictions, weight)
    return sums

  def metric_weights(
      self, batch: Any
  ) -> collections.OrderedDict[str, tf.Tensor]:
    """Returns the units of a batch for each sum that has `weights_of`.

    float32 scalars by name.

    Args:
      batch: A `client_data.Batch`.
    """
    return collections.OrderedDict(
        (name, self.batch_weight(batch, tf.float32, name))
        for name in ('loss', *self.metrics) if name in self.weights_of
    )


def of_width(
    model: FunctionalModel, width: float, rounding: str = 'round'
) -> FunctionalModel:
  """Returns `model.slim` with the metrics that were added to the model."""
  assert model.slim is not None
  return dataclasses.replace(
      model.slim(width, rounding), metrics=model.metrics,
      weights_of=model.weights_of, states=model.states,
  )


def at_statistics(
    statistics: tuple[bool, ...], replace: Callable[..., Any], structure: Any,
    *others: Any,
) -> Any:
  """Returns `structure` with the leaves of moving statistics replaced.

  `replace` is `(leaf, the leaf of each similar structure) -> leaf`. All leaves
  are in the order of the weights; see `FunctionalModel.statistics`.
  """
  if not statistics:
    return structure
  turns = iter(statistics)
  return tf.nest.map_structure(
      lambda leaf, *rest: replace(leaf, *rest) if next(turns) else leaf,
      structure, *others,
  )
