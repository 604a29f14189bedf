"""Counts the multiply-accumulates of a model per example.

These are the multiply-accumulates (MACs) of convolutions and matrix products in
one forward pass, as papers count them, without normalizations, activations and
pooling.

FedHM (see `factorized`), Table 1: a k x k convolution from m to n channels
costs m n k^2 H W on outputs of H x W, its factors of rank r cost
r k H W (m + n).
"""

import math
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import layers

_LOOPS = ('While', 'StatelessWhile', 'Enter', 'TensorListReserve', 'Scan')
# Types of the operations that alone read a tensor.
_PUT_TOGETHER = (['Squeeze'], ['BatchToSpaceND'])
_CALLS = ('PartitionedCall', 'StatefulPartitionedCall')


def count(model: functional.FunctionalModel) -> dict[str, int]:
  """Returns the MACs of `predict` on one example, by layer.

  They are read from the graph of `predict`, so that exactly what is computed is
  counted, whatever the model is made of. A product belongs to the layer of its
  weight; a product of two activations belongs to the layer ''. Products of only
  weights are ignored: their cost does not grow with the number of examples.

  Raises:
    ValueError: If the model has loops (recurrent layers), or unknown shapes.
  """
  described = layers.describe(model)
  one = tf.nest.map_structure(
      lambda spec: tf.TensorSpec([1, *spec.shape[1:]], spec.dtype), model.x_spec
  )
  traced = tf.function(
      lambda weights, x: model.predict(
          weights, x, False, tf.zeros([2], tf.int64)
      ),
      autograph=False,
  ).get_concrete_function(model.spec, one)
  # The origins of a tensor: positions of weights, and -1 for x.
  origins = [{position} for position in range(len(described))]
  origins += [{-1}] * len(tf.nest.flatten(one))
  totals = {weight.layer: 0 for weight in described}
  names = [x.name for x in traced.inputs]
  for macs, position in _visit(
      model.name, traced.graph, dict(zip(names, origins))
  ):
    name = '' if position is None else described[position].layer
    totals[name] = totals.get(name, 0) + macs
  return {name: macs for name, macs in totals.items() if macs}


def total(model: functional.FunctionalModel) -> int:
  """Returns the MACs of `predict` on one example; see `count`."""
  return sum(count(model).values())


def _visit(model_name: str, graph, origins: dict[str, set[int]]):
  """Yields (MACs, position of the weight or None) of each product of a graph.

  The origins of the graph's inputs are given by name; those of all other
  tensors are added.
  """
  for operation in graph.get_operations():
    own = [origins.get(tensor.name, set()) for tensor in operation.inputs]
    if operation.type in _LOOPS:
      raise ValueError(
          'MACs can be counted only for models without loops, found'
          f' {operation.type} in {model_name}. Tip: count one step of a'
          ' recurrent layer as a separate model.'
      )
    if operation.type in _CALLS:
      name = operation.get_attr('f').name
      body = graph._get_function(name).graph  # pylint: disable=protected-access
      inner = dict(zip((x.name for x in body.inputs), own))
      yield from _visit(model_name, body, inner)
      for tensor, result in zip(operation.outputs, body.outputs):
        origins[tensor.name] = inner.get(result.name, set())
      continue
    # The cost of a product of only weights does not count.
    if operation.type in _PRODUCTS and any(-1 in origin for origin in own):
      yield _product(model_name, operation, own)
    for tensor in operation.outputs:
      origins.setdefault(tensor.name, set().union(*own))


def _product(model_name: str, operation, own):
  """Returns what `_visit` yields of one product."""
  shapes = [*operation.inputs, *operation.outputs]
  if not all(tensor.shape.is_fully_defined() for tensor in shapes):
    raise ValueError(
        'MACs can be counted only for models with known shapes, found'
        f' {[str(tensor.shape) for tensor in shapes]} in'
        f' {operation.type} of {model_name}.'
    )
  weights = [origin for origin in own if origin and -1 not in origin]
  cost = _PRODUCTS[operation.type](operation)
  return cost, min(weights[0]) if weights else None


def _matmul(operation) -> int:
  left, transposed = operation.inputs[0].shape, 'transpose_a'
  if operation.type != 'MatMul':
    transposed = 'adj_x'
  inner = left[-2] if operation.get_attr(transposed) else left[-1]
  return operation.outputs[0].shape.num_elements() * inner


def _convolution(operation) -> int:
  kernel = operation.inputs[1].shape
  # A depthwise one takes one channel at a time.
  window = kernel[:2] if 'Depthwise' in operation.type else kernel[:-1]
  made = operation.outputs[0]
  # A dilated one convolves padded pieces, which are put together and cropped.
  while [reader.type for reader in made.consumers()] in _PUT_TOGETHER:
    made = made.consumers()[0].outputs[0]
  return made.shape.num_elements() * math.prod(window)


def _transposed_convolution(operation) -> int:
  _, kernel, spread = operation.inputs
  return spread.shape.num_elements() * math.prod(kernel.shape[:-1])


def _einsum(operation) -> int:
  terms = operation.get_attr('equation').decode().partition('->')[0].split(',')
  sizes: dict[str, Any] = {}
  for term, tensor in zip(terms, operation.inputs):
    sizes.update(zip(term, tensor.shape))
  return math.prod(sizes.values())


_PRODUCTS: Mapping[str, Any] = {
    'BatchMatMul': _matmul, 'BatchMatMulV2': _matmul, 'BatchMatMulV3': _matmul,
    'Conv2D': _convolution, 'Conv3D': _convolution,
    'Conv2DBackpropInput': _transposed_convolution,
    'Conv3DBackpropInputV2': _transposed_convolution,
    'DepthwiseConv2dNative': _convolution, 'Einsum': _einsum, 'MatMul': _matmul,
}
