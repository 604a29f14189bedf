"""The hidden states of an LSTM layer, with a hand-written gradient.

The gradient that TensorFlow derives adds a product of two thin matrices to the
gradient of the recurrent kernel in each step. Here the loop over the steps only
computes the gradients of the gates; the kernel's gradient is one product over
all steps, and everything that is independent of later steps is computed at
once.
"""

from typing import Any

import tensorflow as tf

from tff_pers.numerics import low_rank


def outputs(x: tf.Tensor, kernel: Any, recurrent: Any, bias: Any) -> tf.Tensor:
  """Returns the hidden states of a layer, floats [batch, length, units].

  x is [batch, length, n] of known length and n, the kernel [n, 4 units] or
  another form that `low_rank.matmul` takes, and the bias [4 units].
  """
  length, width = x.shape[1:]
  # One product for all steps; only the recurrent one must be sequential.
  rows = low_rank.matmul(tf.reshape(x, [-1, width]), kernel) + bias
  sums = tf.reshape(rows, [-1, length, rows.shape[-1]])
  states = hidden_states(tf.transpose(sums, [1, 0, 2]), recurrent)
  return tf.transpose(states, [1, 0, 2])


def hidden_states(inputs: tf.Tensor, recurrent: tf.Tensor) -> tf.Tensor:
  """Returns the hidden states [length, batch, units].

  Gates are in Keras' order: input, forget, cell, output. The layer starts from
  zeros. It can be differentiated any number of times.

  Args:
    inputs: The layer's inputs times its kernel in each step, plus the bias:
      floats [length, batch, 4 units] of known length.
    recurrent: The recurrent kernel, floats [units, 4 units], or another form of
      it that `low_rank.matmul` takes, which TensorFlow then differentiates.
  """
  if tf.is_tensor(recurrent):
    return _with_own_gradient(inputs, recurrent)
  return _forward(inputs, recurrent)[0]


@tf.custom_gradient
def _with_own_gradient(inputs, recurrent):
  states, cells, gates = _forward(inputs, recurrent)

  def gradient(d_states):
    d_sums = _backward(d_states, cells, gates, recurrent)
    rows = [tf.reshape(x, [-1, x.shape[-1]]) for x in (_before(states), d_sums)]
    return d_sums, tf.matmul(*rows, transpose_a=True)

  return states, gradient


def _forward(inputs, recurrent):
  """Returns hidden states, cells and gate values of all steps."""
  length, units = inputs.shape[0], inputs.shape[2] // 4
  start = tf.zeros_like(inputs[0, :, :units])

  def body(step, hidden, cell, found):
    sums = inputs[step] + low_rank.matmul(hidden, recurrent)
    i, f, c, o = tf.split(sums, 4, axis=1)
    i, f, c, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(c), tf.sigmoid(o)
    cell = f * cell + i * c
    hidden = o * tf.tanh(cell)
    values = hidden, cell, tf.concat([i, f, c, o], axis=1)
    return step + 1, hidden, cell, [
        array.write(step, value) for array, value in zip(found, values)
    ]

  # A loop rather than 80 copies, because graphs are traced several times.
  *_, found = tf.while_loop(
      lambda step, *_: step < length, body,
      (tf.constant(0), start, start,
       [_steps(length, like) for like in (start, start, inputs[0])]),
      maximum_iterations=length,
  )
  return tuple(array.stack() for array in found)


def _backward(d_states, cells, gates, recurrent):
  """Returns the gradient with respect to the sums of gates, for all steps."""
  length = gates.shape[0]
  i, f, c, o = tf.split(gates, 4, axis=2)
  tanh = tf.tanh(cells)
  # Derivative of the cell (first three gates) or of the state (last gate) by
  # the sum of each gate; a step's cell acts on the state through `opened`.
  slopes = tf.concat([
      c * i * (1 - i), _before(cells) * f * (1 - f), i * (1 - c * c),
      tanh * o * (1 - o),
  ], axis=2)
  opened = o * (1 - tanh * tanh)

  def body(step, d_hidden, d_cell, found):
    d_hidden += d_states[step]
    d_cell += d_hidden * opened[step]
    d_sums = slopes[step] * tf.concat([d_cell] * 3 + [d_hidden], axis=1)
    return (
        step - 1, tf.matmul(d_sums, recurrent, transpose_b=True),
        d_cell * f[step], found.write(step, d_sums),
    )

  nothing = tf.zeros_like(cells[0])
  *_, found = tf.while_loop(
      lambda step, *_: step >= 0, body,
      (tf.constant(length - 1), nothing, nothing, _steps(length, gates[0])),
      maximum_iterations=length,
  )
  return found.stack()


def _before(values):
  """Returns the values of the previous step, zeros at first."""
  return tf.concat([tf.zeros_like(values[:1]), values[:-1]], axis=0)


def _steps(length: int, like):
  """Returns an array for values of all steps, each shaped like `like`."""
  return tf.TensorArray(like.dtype, length, element_shape=like.shape)
