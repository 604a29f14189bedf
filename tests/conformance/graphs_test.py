"""TensorFlow graphs with state of their own: variables, tables, randomness.

State lives for one call of one client: nothing may leak to the next client or
to the next round.
"""

import collections

import grpc
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.runtime import errors

agree = agree_lib.agree

VECTOR = tff.TensorType(np.float32, [3])


def clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


def at_clients(function, *types):
  """Returns `function` mapped over clients and applied at the server."""
  part = tff.to_type(types if len(types) > 1 else types[0])
  local = tff.tensorflow.computation(function, *types)

  @tff.federated_computation(
      clients(part), tff.FederatedType(part, tff.SERVER)
  )
  def computation(values, value):
    return tff.federated_map(local, values), tff.federated_map(local, value)

  return computation


def test_variables_start_anew_for_every_client_and_call():
  def count_to(x):
    variable = tf.Variable(1.0)
    counter = tf.Variable(0, dtype=tf.int64)
    with tf.control_dependencies([variable.assign_add(x)]):
      with tf.control_dependencies([counter.assign_add(1)]):
        return variable.read_value(), counter.read_value()

  computation = at_clients(count_to, np.float32)
  for _ in range(2):
    agree(computation, [1.0, 2.0, 3.0], 4.0)


def test_variables_in_a_function_over_a_dataset():
  """As the models and optimizers of tff.learning are written."""
  def train(x, data):
    weights = tf.Variable(tf.zeros([3]), name='weights')
    momentum = tf.Variable(tf.zeros([3]), name='momentum')
    steps = tf.Variable(0, name='steps')

    @tf.function
    def run(start, elements):
      weights.assign(start)
      for b in elements:
        momentum.assign(0.9 * momentum + b - weights)
        weights.assign_add(0.1 * momentum)
        steps.assign_add(1)
      return weights.read_value(), steps.read_value()

    return run(x, data)

  computation = at_clients(train, VECTOR, tff.SequenceType(VECTOR))
  rng = np.random.default_rng(0)
  data = [
      tf.data.Dataset.from_tensor_slices(
          rng.normal(size=[n, 3]).astype(np.float32)
      ) for n in (4, 1, 0)
  ]
  start = np.ones([3], np.float32)
  for _ in range(2):
    agree(computation, list(zip([start, 2 * start, start], data)), (start, data[0]))


def test_read_before_and_after_an_assignment():
  def order(x):
    variable = tf.Variable(0.0)

    @tf.function
    def run():
      before = variable.read_value()
      variable.assign(x)
      between = variable + 1.0
      variable.assign_sub(2.0 * x)
      return before, between, variable.read_value()

    return run()

  agree(at_clients(order, np.float32), [1.0, -2.0], 5.0)


def test_lookup_table_of_strings():
  def encode(words):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            ['a', 'b', 'c'], tf.constant([1, 2, 3], tf.int64)
        ), -1,
    )
    return table.lookup(words), table.size()

  words = tff.TensorType(np.str_, [None])
  computation = at_clients(encode, words)
  agree(computation, [['a', 'x', 'c'], ['b']], ['c', 'c'])


def test_lookup_table_within_a_dataset():
  """Preprocessing inside: split, look up, pad, batch."""
  def local(sentences):
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(
            ['the', 'cat', 'sat'], tf.constant([0, 1, 2], tf.int64)
        ), num_oov_buckets=1,
    )
    tokens = sentences.map(
        lambda s: table.lookup(tf.strings.split(s[None]).to_tensor('')[0])
    ).padded_batch(2, [4], padding_values=tf.constant(-1, tf.int64))
    return tokens.reduce(
        tf.zeros([4], tf.int64), lambda s, b: 10 * s + tf.reduce_sum(b, 0)
    )

  computation = at_clients(local, tff.SequenceType(np.str_))
  agree(
      computation,
      [['the cat sat', 'the dog', 'cat'], ['sat'], []], ['cat cat'],
  )


def test_mutable_table():
  def local(keys):
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    with tf.control_dependencies([table.insert(keys, 2 * keys)]):
      return table.lookup(tf.range(4, dtype=tf.int64)), table.size()

  keys = tff.TensorType(np.int64, [None])
  agree(at_clients(local, keys), [[1, 2], [3]], [0])


def test_strings():
  def local(text, number):
    parts = tf.strings.split(text[None], ' ').to_tensor('?')[0]
    return (
        tf.strings.join([text, tf.strings.as_string(number)], '-'),
        tf.strings.reduce_join(tf.strings.upper(parts), separator='+'),
        tf.strings.to_hash_bucket_fast(parts, 100), parts,
    )

  agree(
      at_clients(local, np.str_, np.float32),
      [('two words', 1.5), ('one', -2.0)], ('a b c', 0.0),
  )


def test_stateless_randomness_is_equal():
  def local(seed):
    return (
        tf.random.stateless_normal([4], seed),
        tf.random.stateless_uniform([3], seed, maxval=99, dtype=tf.int32),
        tf.random.stateless_truncated_normal([2, 2], seed),
        tf.random.experimental.stateless_shuffle(tf.range(9), seed),
        tf.random.experimental.stateless_fold_in(seed, 3),
        tf.random.stateless_categorical(tf.zeros([1, 5]), 6, seed),
    )

  agree(
      at_clients(local, tff.TensorType(np.int32, [2])),
      [[1, 2], [1, 2], [3, 4]], [5, 6],
  )


def test_stateful_randomness_is_fresh():
  """Unseeded draws differ between clients and calls; means are as they must.

  10^4 standard normals per client: the mean is within 5 / 100.
  """
  def local(x):
    return x + tf.random.normal([10**4])

  computation = at_clients(local, np.float32)
  draws = []
  for _ in range(2):
    values, at_server = agree_lib.on_fused(computation, [1.0, 1.0], 1.0)
    draws += [*values, at_server]
  for i, draw in enumerate(draws):
    assert abs(draw.mean() - 1) < 0.05
    assert abs(draw.std() - 1) < 0.05
    assert not any(np.array_equal(draw, other) for other in draws[:i])


def test_control_flow():
  def local(x, n):
    fold = tf.while_loop(
        lambda i, _: i < n, lambda i, v: (i + 1, v * x), (0, tf.constant(1.0))
    )[1]
    branch = tf.cond(n > 2, lambda: fold, lambda: -fold)
    case = tf.switch_case(n % 3, [lambda: 1, lambda: 2, lambda: 3])
    scanned = tf.scan(lambda a, b: a * x + b, tf.range(3, dtype=tf.float32))
    mapped = tf.map_fn(lambda v: v * x, tf.range(4, dtype=tf.float32))
    return branch, case, scanned, mapped

  agree(at_clients(local, np.float32, np.int32), [(2.0, 3), (3.0, 1)], (1.5, 5))


def test_gradients_within_a_client():
  def local(x, w):
    with tf.GradientTape(persistent=True) as tape:
      tape.watch(w)
      with tf.GradientTape() as inner:
        inner.watch(w)
        loss = tf.reduce_sum(tf.tanh(x * w)**2)
      gradient = inner.gradient(loss, w)
      norm = tf.reduce_sum(gradient**2)
    return loss, gradient, tape.gradient(norm, w)

  values = tuple(np.array([1.0, -2.0, 0.5], np.float32) for _ in range(2))
  agree(at_clients(local, VECTOR, VECTOR), [values] * 2, values)


def test_shapes_known_only_at_run_time():
  def local(x):
    chosen = tf.boolean_mask(x, x > 0)
    unique, _, counts = tf.unique_with_counts(tf.cast(x, tf.int32))
    return chosen, unique, counts, tf.where(x > 0)

  vector = tff.TensorType(np.float32, [None])
  agree(
      at_clients(local, vector),
      [[1.0, -1.0, 2.0], [], [-3.0]], [4.0, 4.0],
  )


def test_ragged_and_sparse_inside():
  def local(x):
    ragged = tf.RaggedTensor.from_row_lengths(x, [1, 2])
    sparse = tf.sparse.from_dense(tf.cast(x > 1, tf.float32))
    return (
        tf.reduce_sum(ragged, 1), ragged.to_tensor(),
        tf.sparse.to_dense(sparse),
    )

  agree(at_clients(local, VECTOR), [[1.0, 2.0, 3.0]], [0.0, 0.0, 2.0])


def test_captured_constants_and_functions():
  captured = np.arange(3, dtype=np.float32)

  @tf.function
  def scaled(x):
    return x * captured

  @tf.custom_gradient
  def clipped(x):
    return x, lambda upstream: tf.clip_by_value(upstream, -1.0, 1.0)

  def local(x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.reduce_sum(5.0 * clipped(x))
    return scaled(x), tape.gradient(y, x), tf.vectorized_map(scaled, x[:, None])

  agree(at_clients(local, VECTOR), [[1.0, 2.0, 3.0]] * 2, [0.0, 1.0, 2.0])


def test_failing_assertion_raises():
  """One class of error, which names the computation, whatever runs it."""
  def local(x):
    with tf.control_dependencies([tf.debugging.assert_positive(x)]):
      return tf.identity(x)

  computation = at_clients(local, np.float32)
  agree(computation, [1.0, 2.0], 3.0)
  for values in ([[1.0, -2.0], 3.0], [[1.0], -3.0]):
    with pytest.raises(
        errors.ComputationError,
        match='`computation` of type .* failed: .*Condition x > 0 did not hold',
    ) as raised:
      agree(computation, *values)
    # Programs that catch the error of TFF's own context catch it, too.
    assert isinstance(raised.value, grpc.RpcError)
    assert str(raised.value).count('The computation `') == 1
  agree(computation, [1.0, 2.0], 3.0)


def test_side_effects_within_functions_happen(capfd):
  @tf.function
  def local(x):
    tf.print('seen', x)
    return x

  agree_lib.on_fused(at_clients(local, np.int32), [11, 12], 13)
  lines = sorted(capfd.readouterr().err.split('\n'))
  assert [line for line in lines if 'seen' in line] == [
      'seen 11', 'seen 12', 'seen 13'
  ]


def test_what_no_result_needs_does_not_run(capfd):
  """Outside of functions: TFF fetches the results of a graph, no more."""
  def local(x):
    tf.print('seen', x)
    tf.compat.v1.placeholder(tf.int32) + x  # pylint: disable=expression-not-assigned
    unused = tf.Variable(1)
    unused.assign_add(tf.compat.v1.placeholder(tf.int32))
    return x

  agree(at_clients(local, np.int32), [11, 12], 13)
  assert 'seen' not in capfd.readouterr().err


def test_dictionary_arguments_keep_their_names():
  part = tff.to_type(collections.OrderedDict(z=np.float32, a=np.int32))

  def local(x):
    assert list(x) == ['z', 'a']
    return collections.OrderedDict(y=x['z'], b=x['a'])

  agree(at_clients(local, part), [(1.0, 2)], (3.0, 4))
