"""Replaces conversions of `tf.vectorized_map` that would loop over clients.

It turns clients' convolutions into one only if they share the kernel; otherwise
it loops over the clients. Here the patches of each client are rows of a matrix,
and all clients' products are one batched product, which is exact,
deterministic, and has kernels on every device.

Its loop over the clients fails if there are none, as in a branch that is not
taken. And it ignores which operations belong on the host, see `operations`.
"""

import contextlib
import sys
from typing import Any, Callable, Iterator

import tensorflow as tf
# TensorFlow does not export how `vectorized_map` converts operations.
from tensorflow.python.ops.parallel_for.pfor import PFor

from tff_pers.runtime.fused import operations

# A function of the same name hides the module in its package.
pfor: Any = sys.modules[PFor.__module__]
# Patches repeat each number as often as a kernel has positions. Above this many
# bytes per example, one client's convolution keeps a GPU busy. (Not measured.)
_MOST_BYTES = 2**22


@contextlib.contextmanager
def converted() -> Iterator[None]:
  """Makes `tf.vectorized_map` use the conversions of this module."""
  before = {name: getattr(pfor, name) for name in _REPLACED}
  try:
    for name, replaced in _REPLACED.items():
      setattr(pfor, name, replaced(before[name]))
    yield
  finally:
    for name, replaced in before.items():
      setattr(pfor, name, replaced)


class _Registry(dict):
  """Converters by operation; each runs on the operation's device."""

  def __init__(self, usual: dict):
    super().__init__(usual)
    for op, (product, shared) in _PRODUCTS.items():
      self[op] = _converter(usual[op], product, shared)

  def get(self, key: str, default: Any = None) -> Any:
    if key not in self:
      return default

    def convert(pfor_input):
      with _place(pfor_input.op.node_def):
        return self[key](pfor_input)

    return convert


def _place(node) -> Any:
  return tf.device('/CPU:0' if operations.is_of_the_host(node) else '')


def _placed(create: Callable) -> Callable:
  """Returns a function that creates operations on their device."""

  def created(op_type, inputs, op_dtypes, attrs=None):
    with _place(tf.compat.v1.NodeDef(op=op_type, attr=attrs)):
      return create(op_type, inputs, op_dtypes, attrs=attrs)

  return created


def _one_by_one(pfor_input: Any, root_cause: str = '', warn: bool = False):
  """Returns an operation's outputs for all clients, by a loop over them."""
  del root_cause, warn  # Arguments of the function that this one replaces.
  with _place(pfor_input.op.node_def):
    return _looped(pfor_input, pfor_input.op)


def _looped(pfor_input, op):
  count = pfor_input.pfor.loop_len_vector[0]

  def body(i, *arrays):
    inputs = [
        given[i, ...] if is_stacked else given
        for given, is_stacked, _ in pfor_input.inputs
    ]
    outputs = pfor._create_op(  # pylint: disable=protected-access
        op.type, inputs, [t.dtype for t in op.outputs],
        attrs=op.node_def.attr,
    ).outputs
    return (i + 1, *(a.write(i, t) for a, t in zip(arrays, outputs)))

  arrays = tf.while_loop(
      lambda i, *_: i < count, body,
      (0, *(tf.TensorArray(t.dtype, count) for t in op.outputs)),
  )[1:]
  return tuple(
      pfor.wrap(_stacked(array, count, t), True)
      for array, t in zip(arrays, op.outputs)
  )


def _stacked(array, count, like):
  """Returns the rows of an array, which has no shape if it is empty.

  Unknown sizes are then 1, which fits any others.
  """
  if like.shape.is_fully_defined() or like.shape.rank is None:
    return array.stack()
  rows = tf.cond(
      count > 0, array.stack,
      lambda: tf.zeros([0, *(size or 1 for size in like.shape)], like.dtype),
  )
  return tf.ensure_shape(rows, [None, *like.shape])


def _converter(usual: Callable, product: Callable, shared: int) -> Callable:
  """Returns a converter: the usual one if clients share input `shared`."""

  def convert(pfor_input):
    op = pfor_input.op
    known = _Shapes.of(op) if pfor_input.input(shared)[1] else None
    if known is None:
      return usual(pfor_input)
    pfor_input.stack_inputs([
        k for k, tensor in enumerate(op.inputs) if tensor.dtype.is_floating
    ])
    stacked = [
        pfor_input.stacked_input(k)
        for k, tensor in enumerate(op.inputs) if tensor.dtype.is_floating
    ]
    return pfor.wrap(product(known, *stacked), True)

  return convert


class _Shapes:
  """The shapes of one client's convolution.

  Attributes:
    image: (height, width, channels) of the input.
    kernel: (height, width, channels in, channels out).
    result: (height, width, channels) of the output.
    strides: (vertical, horizontal).
    before: Rows and columns of zeros above and to the left.
    after: Those below and to the right.
  """

  def __init__(self, image, kernel, result, strides, padding):
    self.image, self.kernel, self.result = image, kernel, result
    self.strides = strides
    # As TensorFlow's SAME does; negative where VALID leaves rows out.
    total = [
        (out - 1) * stride + extent - size
        for out, stride, extent, size in zip(result, strides, kernel, image)
    ]
    if padding == b'SAME':
      total = [max(0, t) for t in total]
    self.before = [t // 2 if t > 0 else 0 for t in total]
    self.after = [t - b for t, b in zip(total, self.before)]

  @classmethod
  def of(cls, op: tf.Operation) -> Any:
    """Returns the shapes; None if unknown, or if a loop is better."""
    x, kernel, y = _tensors(op)
    image, kernel, result = x[1:], list(kernel), y[1:]
    strides = op.get_attr('strides')
    if (
        None in (*image, *kernel, *result)
        or op.get_attr('data_format') != b'NHWC'
        or op.get_attr('padding') not in (b'SAME', b'VALID')
        or set(op.get_attr('dilations')) != {1}
        or kernel[2] != image[2]  # Groups.
        or _num_bytes(result, kernel) > _MOST_BYTES
    ):
      return None
    return cls(image, kernel, result, strides[1:3], op.get_attr('padding'))

  def padded(self, images: tf.Tensor) -> tf.Tensor:
    """Returns stacked images with the zeros around them."""
    around = [[b, max(0, a)] for b, a in zip(self.before, self.after)]
    return tf.pad(images, [[0, 0], [0, 0], *around, [0, 0]])

  def spread(self, results: tf.Tensor) -> tf.Tensor:
    """Returns stacked results a stride apart, with zeros between and around."""
    count, batch = tf.unstack(tf.shape(results)[:2])
    (height, width, channels), (down, right) = self.result, self.strides
    apart = tf.pad(
        results[:, :, :, None, :, None],
        [[0, 0]] * 3 + [[0, down - 1], [0, 0], [0, right - 1], [0, 0]],
    )
    apart = tf.reshape(
        apart, [count, batch, height * down, width * right, channels]
    )
    around = []
    for size, extent, out, stride, before in zip(
        self.image, self.kernel, self.result, self.strides, self.before
    ):
      # The zeros after the last result are already included.
      last = (out - 1) * stride + 1
      around.append((extent - 1 - before, size + before - last, last))
    (top, bottom, rows), (left, beside, columns) = around
    return tf.pad(
        apart[:, :, :rows, :columns],
        [[0, 0], [0, 0], [top, bottom], [left, beside], [0, 0]],
    )


def _tensors(op) -> list:
  """Returns the shapes of the image, the kernel and the result."""
  places = dict(
      Conv2D=(op.inputs[0], op.inputs[1], op.outputs[0]),
      Conv2DBackpropFilter=(op.inputs[0], op.outputs[0], op.inputs[-1]),
      Conv2DBackpropInput=(op.outputs[0], op.inputs[1], op.inputs[-1]),
  )
  return [list(tensor.shape) for tensor in places[op.type]]


def _num_bytes(result, kernel) -> int:
  """Returns the bytes of an example's patches, of float32."""
  return 4 * result[0] * result[1] * kernel[0] * kernel[1] * kernel[2]


def _convolved(known, images, kernels):
  """Returns the results, [clients, batch, height, width, channels]."""
  rows = _patches(known.padded(images), known.kernel, known.strides)
  return _product(rows, kernels, images, known.result)


def _kernel_gradients(known, images, d_results):
  """Returns the gradients of the kernels, stacked."""
  rows = _patches(known.padded(images), known.kernel, known.strides)
  count = tf.shape(images)[0]
  d_rows = tf.reshape(d_results, [count, -1, known.result[-1]])
  gradients = tf.matmul(rows, d_rows, transpose_a=True)
  return tf.reshape(gradients, [count, *known.kernel])


def _image_gradients(known, kernels, d_results):
  """Returns the gradients of the images: a convolution with turned kernels."""
  turned = tf.transpose(
      tf.reverse(kernels, [1, 2]), [0, 1, 2, 4, 3]
  )
  height, width, given, taken = known.kernel
  rows = _patches(known.spread(d_results), (height, width, taken), (1, 1))
  return _product(rows, turned, d_results, [*known.image[:2], given])


def _patches(images, kernel, strides):
  """Returns the patch at each position: [clients, positions, numbers]."""
  count = tf.shape(images)[0]
  found = tf.image.extract_patches(
      tf.reshape(images, [-1, *images.shape[2:]]), [1, *kernel[:2], 1],
      [1, *strides, 1], [1, 1, 1, 1], 'VALID',
  )
  return tf.reshape(found, [count, -1, kernel[0] * kernel[1] * kernel[2]])


def _product(rows, kernels, like, shape):
  """Returns rows times kernels as images of `shape`, as many as `like` has."""
  count, batch = tf.unstack(tf.shape(like)[:2])
  matrices = tf.reshape(kernels, [count, rows.shape[-1], shape[-1]])
  return tf.reshape(tf.matmul(rows, matrices), [count, batch, *shape])


# The product, and which of its inputs clients may share.
_PRODUCTS: dict[str, tuple[Callable, int]] = dict(
    Conv2D=(_convolved, 1),
    Conv2DBackpropFilter=(_kernel_gradients, 0),
    Conv2DBackpropInput=(_image_gradients, 1),
)
# Members of the module that converts, with what replaces them.
_REPLACED: dict[str, Callable[[Any], Any]] = dict(
    _pfor_converter_registry=_Registry, _create_op=_placed,
    _fallback_converter=lambda _: _one_by_one,
)
