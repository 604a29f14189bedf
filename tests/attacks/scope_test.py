"""A composed method in the scope of an attack."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree
from tff_pers import attacks
from tff_pers import composition
from tff_pers.client_works import client_work
from tff_pers.core import interception
from tff_pers.data import client_data
from tff_pers.models import least_squares
from tff_pers.models import zoo
from tff_pers.testing import tiny

pytestmark = pytest.mark.usefixtures('native_runtime')
BYZANTINE = np.array([False, True, False, False, True])
# (x, y) of one example of each client; client 3 has none and is absent.
ROWS = [[(1, 2)], [(3, -4)], [(5, 7), (6, 2)], [], [(2, 9)]]
MODEL = zoo.build('linear_regression', tf.TensorSpec([None, 1]), 0)


def clients():
  return [
      client_data.dense(
          i, np.array([[x] for x, _ in rows], np.float32).reshape([-1, 1]),
          np.array([y for _, y in rows], np.float32),
      )
      for i, rows in enumerate(ROWS)
  ]


def _send_sums(message, client_state, data):
  """Sends the sums of x and of y, weighted by the number of examples."""
  del message
  x, y = data['examples']['x'], data['examples']['y']
  return client_work.ClientOutput(
      client_state=client_state,
      update=(tf.reduce_sum(x, axis=0)[:, None], tf.reduce_sum(y)[None]),
      weight=tf.cast(data['num_examples'], tf.float32),
      loss=tf.reduce_sum(x),
  )


def compose(attack, byzantine=BYZANTINE, aggregator=None, finalize=None):
  """Returns the method whose weights are the mean of what it received."""
  with attacks.carried_out(attack and attacks.parse(attack), byzantine):
    return composition.compose(
        MODEL,
        init=lambda seed: dict(weights=MODEL.initial_weights(seed)),
        send=lambda state: dict(weights=state['weights']),
        work=client_work.ClientWork(_send_sums),
        finalize=finalize or (lambda state, mean: dict(weights=mean)),
        deploy=lambda message, own, data: message['weights'],
        client_model=lambda state, own, index: state['weights'],
        aggregator=aggregator,
    )


def first_round(process, data=None):
  data = clients() if data is None else data
  state = process.initialize_seeded(1)
  return process.next(state, [()] * len(data), data)


def mean(output):
  """Returns the aggregate, float[2]."""
  return np.concatenate([
      np.ravel(leaf) for leaf in tf.nest.flatten(output['state']['weights'])
  ])


# Sums (x, y): honest are clients 0 and 2.
SUMS = np.array([[1, 2], [3, -4], [11, 9], [0, 0], [2, 9]])
WEIGHTS = np.array([1, 1, 2, 0, 1])
MU = np.array([6, 5.5])
STD = np.array([10, 7]) / np.sqrt(2)


def of(bad):
  """Returns the mean of the server if attackers send the rows of `bad`."""
  received = SUMS.astype(float)
  received[BYZANTINE] = bad
  return WEIGHTS @ received / WEIGHTS.sum()


@pytest.mark.parametrize(
    'attack, expected',
    [
        ('bit_flip', of(-SUMS[BYZANTINE])),
        ('sign_flip', of(-MU)),
        ('ipm', of(-10 * MU)),
        # n = 4, f = 2: s = 1 of 2, z = 0.
        ('alie', of(MU)),
        ('alie[z=2]', of(MU - 2 * STD)),
        ('mimic', of(SUMS[0])),
        ('label_flip', of(SUMS[BYZANTINE] * [1, -1])),
        ('nan', (SUMS[0] + 2 * SUMS[2]) / 3),
        ('inf', (SUMS[0] + 2 * SUMS[2]) / 3),
        ('silent', (SUMS[0] + 2 * SUMS[2]) / 3),
        # Only the first attacker's labels are flipped.
        ('mixed[first=label_flip,second=bit_flip]',
         of([SUMS[1] * [1, -1], -SUMS[4]])),
    ],
)
def test_what_the_plain_mean_becomes(attack, expected):
  output = first_round(compose(attack))
  np.testing.assert_allclose(mean(output), expected, rtol=1e-6)
  refused = [1, 4] if attack in ('nan', 'inf') else []
  np.testing.assert_array_equal(
      output['metrics']['aggregator']['refused'], refused
  )
  assert not len(output['metrics']['non_finite'])


def test_a_huge_message_spreads_with_the_plain_mean():
  assert np.all(mean(first_round(compose('huge'))) > 1e28)


def test_who_is_not_in_the_cohort_does_not_attack():
  """And honest clients that are absent are not in the mean of the attackers."""
  data = clients()
  output = first_round(compose('sign_flip'), [data[4], data[0], data[3]])
  np.testing.assert_allclose(mean(output), [0, 0], atol=1e-7)
  output = first_round(compose('sign_flip'), [data[2], data[0]])
  np.testing.assert_allclose(mean(output), (SUMS[0] + 2 * SUMS[2]) / 3)


def test_outside_of_a_scope_nothing_changes():
  plain = compose(None)
  for process in (
      compose('none'), compose('ipm', byzantine=None), compose(None)
  ):
    assert process.next.type_signature == plain.next.type_signature
  with pytest.raises(KeyError):
    with attacks.carried_out(attacks.Ipm(), BYZANTINE):
      raise KeyError


def test_a_round_of_refused_messages_changes_nothing():
  """Not even an optimizer takes a step."""
  process = compose('nan', finalize=lambda state, aggregate: dict(
      weights=tf.nest.map_structure(lambda x: x + 1, state['weights'])
  ))
  data = clients()
  first = process.initialize_seeded(1)
  output = process.next(first, [()] * 2, [data[1], data[4]])
  np.testing.assert_array_equal(
      mean(output), mean(dict(state=first))
  )
  assert output['state']['round'] == 1
  assert mean(first_round(process, data[:2]))[0] == mean(
      dict(state=first)
  )[0] + 1


class _Impossible(tff.aggregators.WeightedAggregationFactory):
  """A mean that says that it was impossible."""

  def create(self, value_type, weight_type):
    process = tff.aggregators.MeanFactory().create(value_type, weight_type)
    yes = tff.tensorflow.computation(
        lambda: collections.OrderedDict(
            rule=collections.OrderedDict(impossible=1)
        )
    )

    @tff.federated_computation(*process.next.type_signature.parameter)
    def next_fn(state, value, weight):
      output = process.next(state, value, weight)
      return tff.templates.MeasuredProcessOutput(
          output.state, output.result, tff.federated_eval(yes, tff.SERVER)
      )

    return tff.templates.AggregationProcess(process.initialize, next_fn)


def test_a_rule_with_too_few_messages_is_as_if_nobody_was_there():
  process = compose(None, aggregator=_Impossible())
  output = first_round(process)
  np.testing.assert_array_equal(
      mean(output), mean(dict(state=process.initialize_seeded(1)))
  )
  assert output['state']['round'] == 1


def test_labels_of_classes_are_mirrored_in_the_whole_procedure():
  """An attacker does what it would do if its labels were the others."""
  task = tiny.task()
  attackers = np.array([False, True, False, False])
  with attacks.carried_out(attacks.LabelFlip(), attackers, num_classes=2):
    attacked = tiny.build('fedavg', task)
  flipped = list(task.train)
  flipped[1] = tf.nest.map_structure(np.copy, flipped[1])
  flipped[1]['examples']['y'] = 1 - flipped[1]['examples']['y']
  outputs = [
      process.next(process.initialize_seeded(3), [()] * 4, data)
      for process, data in (
          (attacked, task.train), (tiny.build('fedavg', task), flipped)
      )
  ]
  tf.nest.map_structure(
      np.testing.assert_array_equal,
      *(output['state']['weights'] for output in outputs),
  )


def test_targets_of_least_squares_change_their_sign():
  """In the inner solve and in the gradient: both are linear in y."""
  model = least_squares.build(2, 1, 4)
  rng = np.random.default_rng(0)
  data = client_data.dense(0, rng.standard_normal((4, 3)), np.arange(4.0))
  with attacks.carried_out(attacks.LabelFlip(), [True]):
    found = interception.changed('data', data)
  weights = (tf.zeros([2], tf.float64), tf.zeros([1], tf.float64))
  gradients = []
  for each in (data, found):
    with tf.GradientTape() as tape:
      tape.watch(weights)
      loss = tf.reduce_mean(model.example_loss(
          each['examples']['y'],
          model.predict(weights, each['examples']['x'], True, None),
      ))
    gradients.append(tape.gradient(loss, weights))
  for plain, opposite in zip(*gradients):
    np.testing.assert_allclose(plain, -opposite)
    assert np.all(plain != 0)


@pytest.mark.parametrize('attack', ['nan', 'adaptive'])
def test_runtimes_agree(attack):
  process = compose(attack)
  state = process.initialize_seeded(1)
  agree.agree(process.next, state, [()] * 5, clients())
