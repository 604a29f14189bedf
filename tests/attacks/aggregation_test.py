"""What a server receives from attackers, and what it does not let in."""

import collections

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_federated as tff

from tests import slow
from tests.attacks import received
from tests.conformance import agree
from tff_pers import attacks
from tff_pers.aggregators import mapped
from tff_pers.aggregators import robust
from tff_pers.aggregators import seeding
from tff_pers.aggregators import structure
from tff_pers.attacks import aggregation
from tff_pers.numerics import attacks as messages_lib
from tff_pers.numerics import attacks_adaptive

pytestmark = pytest.mark.usefixtures('native_runtime')
# What each client would send; representable in float32.
SENT = np.random.default_rng(0).integers(-8, 9, (7, 3)) / 4.0
# 1 and 4 attack. 5 is honest, and 6 an attacker, but both are absent.
BYZANTINE = np.array([0, 1, 0, 0, 1, 0, 1], bool)
WEIGHTS = [1, 2, 3, 1, 1, 0, 0]
HONEST = SENT[[0, 2, 3]]
MU, STD = HONEST.mean(axis=0), HONEST.std(axis=0, ddof=1)


def run(text, sent=SENT, weights=WEIGHTS, byzantine=BYZANTINE, **options):
  """Returns (output, messages, weights) of one round."""
  process = received.create(text, **options)
  output = process.next(
      received.start(process), received.cohort(sent, byzantine),
      [np.float32(w) for w in weights],
  )
  return output, *received.rows(output)


@pytest.mark.parametrize(
    'text, expected',
    [
        # Attackers did their work on others.
        pytest.param('label_flip', SENT[[1, 4]], marks=pytest.mark.slow),
        ('none', SENT[[1, 4]]),
        pytest.param('bit_flip', -SENT[[1, 4]], marks=pytest.mark.slow),
        ('bit_flip[kappa=3]', -3 * SENT[[1, 4]]),
        ('sign_flip', [-MU, -MU]),
        pytest.param('ipm', [-10 * MU, -10 * MU], marks=pytest.mark.slow),
        ('ipm[eps=0.5]', [-0.5 * MU, -0.5 * MU]),
        ('alie[z=1.5]', [MU - 1.5 * STD] * 2),
        # n = 5, f = 2: s = 1, the share of others is 2 / 3.
        ('alie', [MU - scipy.stats.norm.ppf(2 / 3) * STD] * 2),
        ('mimic', [SENT[0], SENT[0]]),
        ('huge', np.full([2, 3], 1e30)),
        # Of the attackers 1, 4 and 6, who is absent, one makes the first.
        ('mixed[first=bit_flip,second=ipm,share=0.4]', [-SENT[1], -10 * MU]),
        ('mixed[first=bit_flip,second=alie[z=2],share=0.6]',
         [-SENT[1], -SENT[4]]),
        ('mixed[first=mixed[first=sign_flip,second=none],second=bit_flip,'
         'share=0.7]', [-MU, SENT[4]]),
    ],
)
def test_message(text, expected):
  """It is made of the honest ones that are present, and of no others."""
  output, sent, weights = run(text)
  np.testing.assert_allclose(sent[[1, 4]], expected, rtol=1e-6, atol=1e-7)
  others = [0, 2, 3, 5, 6]  # Also 6, who is absent.
  np.testing.assert_array_equal(sent[others], SENT[others])
  np.testing.assert_array_equal(weights, WEIGHTS)
  assert output.measurements['num_refused'] == 0
  assert output.measurements['impossible'] == 0


@pytest.mark.parametrize('text', ['nan', 'inf'])
def test_what_is_not_finite_becomes_absent_and_is_named(text):
  output, sent, weights = run(text)
  np.testing.assert_array_equal(sent[[1, 4]], np.zeros([2, 3]))
  np.testing.assert_array_equal(weights, [1, 0, 3, 1, 0, 0, 0])
  np.testing.assert_array_equal(output.measurements['refused'], [1, 4])
  assert output.measurements['num_refused'] == 2


@pytest.mark.parametrize('wrapped', [
    lambda rule: rule,
    lambda rule: tff.aggregators.clipping_factory(1e3, rule),
])
def test_a_rule_assumes_less_for_what_it_removed(wrapped):
  """4 messages are too few for f = 2, but 2 of 6 were removed.

  With f = 1 the two in the middle of 1, 2, 6, 9 are left.
  """
  factory = wrapped(robust.build_factory('trimmed_mean[f=2]'))
  process = received.create('nan', factory)
  sent = np.array([[1.0], [2.0], [6.0], [9.0], [0.0], [0.0]]) * np.ones([1, 3])
  output = process.next(
      received.start(process),
      received.cohort(sent, [0, 0, 0, 0, 1, 1]), [np.float32(1)] * 6,
  )
  for leaf in tf.nest.flatten(output.result):
    np.testing.assert_allclose(leaf, 4.0)
  assert output.measurements['num_refused'] == 2


def test_one_bad_number_is_enough():
  """Also of an honest client; it is not counted among what attackers see."""
  sent = np.array(SENT)
  sent[3, 2] = np.nan
  output, found, weights = run('sign_flip', sent=sent)
  np.testing.assert_array_equal(found[3], np.zeros(3))
  np.testing.assert_array_equal(weights, [1, 2, 3, 0, 1, 0, 0])
  np.testing.assert_array_equal(output.measurements['refused'], [3])
  np.testing.assert_allclose(found[1], -SENT[[0, 2]].mean(axis=0), rtol=1e-6)


def test_what_an_absent_client_would_send_does_not_spread():
  sent = np.array(SENT)
  sent[5] = np.nan
  output, found, _ = run('none', sent=sent)
  np.testing.assert_array_equal(found[5], np.zeros(3))
  assert output.measurements['num_refused'] == 0  # It sent nothing.


def test_silent_clients_are_absent_but_not_refused():
  output, _, weights = run('silent')
  np.testing.assert_array_equal(weights, [1, 0, 3, 1, 0, 0, 0])
  assert output.measurements['num_refused'] == 0


def test_only_some_are_silent():
  output, sent, weights = run('mixed[first=silent,second=ipm,share=0.4]')
  np.testing.assert_array_equal(weights, [1, 0, 3, 1, 1, 0, 0])
  np.testing.assert_allclose(sent[4], -10 * MU)
  assert output.measurements['num_refused'] == 0


def test_of_messages_one_by_one_attackers_see_the_last_ones():
  """Client 1 attacks with minus the mean of the honest of the last three."""
  process = received.create('sign_flip', window=3)
  state = received.start(process)
  expected = [
      (0, SENT[0]), (1, -SENT[0]), (2, SENT[2]), (3, SENT[3]),
      # The window holds messages 2, 3 and its own.
      (1, -(SENT[2] + SENT[3]) / 2), (1, -SENT[3]), (1, 0 * SENT[1]),
  ]
  for client, message in expected:
    value = received.cohort([SENT[client]], [client == 1], [client])
    output = process.next(state, value, [np.float32(1)])
    state = output.state
    np.testing.assert_allclose(received.rows(output)[0], [message])


@pytest.mark.parametrize('text', ['nan', 'silent'])
def test_nobody_left_is_no_round(text):
  output, _, _ = run(text, byzantine=[True] * 7)
  assert output.measurements['impossible'] == 1


@pytest.mark.parametrize(
    'text', slow.beyond(4, sorted(
        [n for n in attacks.names() if n != 'none'] + ['noise[std=2]'],
        # Those that look at others, draw, remember, or are removed come first.
        key=('adaptive', 'noise', 'mimic', 'nan').__contains__, reverse=True,
    ))
)
def test_without_attackers_no_bit_changes(text):
  mean = tff.aggregators.MeanFactory(no_nan_division=True)
  process = received.create(text, mean)
  weights = [np.float32(w) for w in WEIGHTS]
  cohort = received.cohort(SENT, [False] * 7)
  found = process.next(received.start(process), cohort, weights)
  plain = mean.create(received.UPDATE, received.WEIGHT)
  expected = plain.next(
      plain.initialize(), [value['update'] for value in cohort], weights
  )
  tf.nest.map_structure(
      np.testing.assert_array_equal, found.result, expected.result
  )


def test_mimic_remembers_its_target():
  process = received.create('mimic[warmup=1]')
  state = received.start(process)
  weights = [np.float32(1)] * 4
  rng = np.random.default_rng(0)
  target = None
  for _ in range(4):
    order = rng.permutation(4)  # Client 3 attacks.
    sent = rng.standard_normal((4, 3))
    cohort = received.cohort(sent[order], order == 3, order + 10)
    output = process.next(state, cohort, weights)
    state = output.state
    found = received.rows(output)[0][np.argsort(order)]
    copied = [i for i in range(3) if np.array_equal(found[i], found[3])]
    target = copied if target is None else target
    assert copied == target == [state['memory']['own']['target'] - 10]
  assert state['round'] == 4


def test_noise_is_independent_and_repeats_with_the_seed():
  sent = np.zeros([40, 3])
  byzantine = np.arange(40) > 0
  process = received.create('noise[std=10]')
  state = received.start(process)
  cohort = received.cohort(sent, byzantine)
  weights = [np.float32(1)] * 40

  def noise(state):
    output = process.next(state, cohort, weights)
    return received.rows(output)[0][1:], output.state

  first, after = noise(state)
  np.testing.assert_array_equal(noise(state)[0], first)
  np.testing.assert_allclose(first.std(), 10, rtol=0.15)
  assert len(np.unique(first)) == first.size  # No two attackers share a draw.
  for other in (noise(after)[0], noise(received.start(process, 6))[0]):
    assert not np.any(other == first)
  # A client draws the same wherever it stands in the cohort.
  backwards = process.next(state, cohort[::-1], weights)
  np.testing.assert_array_equal(
      received.rows(backwards)[0][::-1][1:], first
  )


def test_noise_is_relative_to_the_honest_spread_by_default():
  sent = np.random.default_rng(0).standard_normal((60, 3)) * [1e-4, 2e-4, 0]
  byzantine = np.arange(60) >= 20
  _, found, _ = run(
      'noise', sent=sent, weights=[1] * 60, byzantine=byzantine
  )
  rms = np.sqrt(np.mean(sent[:20].var(axis=0, ddof=1)))
  np.testing.assert_allclose(found[20:].std(), 10 * rms, rtol=0.15)


class _Watching:
  """The mean, which moves only for a message that is exactly as expected."""

  f, is_random = 3, False

  def __init__(self, bait):
    self._bait = bait
    self.asked = []

  def __call__(self, x, num_byzantine, key):
    self.asked.append(num_byzantine)
    taken = tf.reduce_all(tf.equal(x[-1], self._bait))
    return messages_lib.mean(x) + tf.cast(taken, x.dtype) * 1e6

  def is_possible(self, num_messages, num_byzantine):
    return True


@pytest.mark.parametrize('bait', [SENT[4], SENT[2]])
def test_adaptive_tries_own_and_honest_messages(bait):
  rule = _Watching(tf.constant(bait).numpy())
  _, found, _ = run('adaptive', rule=rule)
  np.testing.assert_array_equal(found[[1, 4]], [bait, bait])
  assert set(rule.asked) == {3}


def test_adaptive_cannot_do_more_than_nothing_against_an_impossible_rule():
  class Impossible(attacks_adaptive.Mean):

    def is_possible(self, num_messages, num_byzantine):
      return num_messages > 100

  _, found, _ = run('adaptive', rule=Impossible())
  np.testing.assert_allclose(found[1], -MU, rtol=1e-6)


def test_attackers_do_not_know_the_draws_of_the_server():
  """The inner factory's key is that of a run without attack, theirs another."""
  state = received.create('noise').initialize()
  assert list(state) == ['inner', 'seed', 'round', 'memory']
  zeros = tf.zeros([2], tf.int64)
  inner = collections.OrderedDict(seed=zeros)
  seeded = seeding.seed_state(
      collections.OrderedDict(
          (name, inner if name == 'inner' else tf.convert_to_tensor(value))
          for name, value in state.items() if name != 'memory'
      ), 7,
  )
  alone = seeding.seed_state(inner, 7)
  np.testing.assert_array_equal(seeded['inner']['seed'], alone['seed'])
  assert np.any(seeded['seed'] != alone['seed'])


def test_unknown_shapes():
  """What needs no other's message works; what does says so."""
  class SumOfAll(tff.aggregators.WeightedAggregationFactory):

    def create(self, value_type, weight_type):
      return mapped.map_first(
          tff.tensorflow.computation(
              lambda value: tf.cast(tf.reduce_sum(value[0]), tf.float32),
              value_type,
          ),
          tff.aggregators.MeanFactory().create(
              tff.TensorType(np.float32), weight_type
          ),
      )

  def create(attack, update_type):
    return attacks.attacked(SumOfAll(), attack).create(
        received.value_type(tff.to_type([update_type])), received.WEIGHT
    )

  unknown = tff.TensorType(np.float32, [None])
  process = create(attacks.BitFlip(), unknown)
  cohort = [
      collections.OrderedDict(
          update=[np.ones([size], np.float32)], byzantine=np.bool_(size == 5),
          index=np.int32(size), place=np.float64(0.5),
      ) for size in (2, 5)
  ]
  output = process.next(
      received.start(process), cohort, [np.float32(1)] * 2
  )
  assert output.result == (2 - 5) / 2
  with pytest.raises(TypeError, match='The attack ipm must see messages of'):
    create(attacks.Ipm(), unknown)
  with pytest.raises(TypeError, match='must have a floating tensor'):
    create(attacks.BitFlip(), tff.TensorType(np.int32, [2]))


@pytest.mark.parametrize(
    'text', ['adaptive', 'mimic[warmup=2]', 'noise', 'nan', 'mixed']
)
def test_runtimes_agree(text):
  process = received.create(
      text, tff.aggregators.MeanFactory(no_nan_division=True)
  )
  output = agree.agree(
      process.next, received.start(process),
      received.cohort(SENT, BYZANTINE), [np.float32(w) for w in WEIGHTS],
  )
  assert np.all(np.isfinite(output.result[0]))


_RULE = robust.build_factory('median')
_MEAN = tff.aggregators.MeanFactory()


@pytest.mark.parametrize('factory, expected', [
    (_RULE, True), (_MEAN, False),
    (tff.aggregators.clipping_factory(1.0, _RULE), True),
    (tff.aggregators.zeroing_factory(1.0, _MEAN), False),
    # NaN would reach the mean.
    (structure.StructureFactory({'a': _RULE, 'b': _MEAN}), False),
    (structure.StructureFactory({'a': _RULE, 'b': _RULE}), True),
])
def test_rules_remove_what_is_not_finite(factory, expected):
  value_type = tff.TensorType(np.float32, [2])
  if isinstance(factory, structure.StructureFactory):
    value_type = tff.to_type(
        collections.OrderedDict(a=value_type, b=value_type)
    )
  process = factory.create(value_type, tff.TensorType(np.float32))
  assert aggregation.removes_non_finite(process) == expected
