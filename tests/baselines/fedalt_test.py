"""FedAlt and FedRep (papers/baselines.md 6.2 and 6.4)."""

import pytest
import tensorflow as tf

from baselines import fedalt
from baselines import fedrep
from tests import problems
from tests.baselines import rounds
from tff_pers.models import partition

_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)


def test_a_phase_holds_the_other_part_at_its_newest_value():
  """First w at the old theta, then theta at the new w."""
  process = fedalt.build_fedalt(
      partition.Partition(problems.tiny_model(), (False, True, False, True)),
      fedalt.FedAltHyperparameters(
          local_steps=2, batch_size=7, learning_rate=0.1, private_steps=3,
          private_learning_rate=0.3,
      ),
  )
  states, own, _ = rounds.train(process, cohorts=((4,),))
  weights = list(problems.tiny_model().initial_weights(rounds.SEED))
  data = problems.tiny_clients()[4]
  for steps, rate, leaves in ((3, 0.3, (1, 3)), (2, 0.1, (0, 2))):
    for _ in range(steps):
      _, gradient = rounds.gradient(weights, data)
      for leaf in leaves:
        weights[leaf] -= rate * gradient[leaf]
  rounds.assert_close(states[0]['weights'], weights[0::2])
  rounds.assert_close(own[4], weights[1::2])


@pytest.mark.parametrize('options, expected', [
    ({}, dict(num_steps=5, num_epochs=None)),
    (dict(private_epochs=3), dict(num_epochs=3)),
    (dict(private_steps=4), dict(num_steps=4)),
    # 7 examples are 4 batches of two, the last of them short.
    (dict(private_epochs=3, private_steps=50), dict(num_steps=12)),
    (dict(private_epochs=3, private_steps=9), dict(num_steps=9)),
])
def test_private_phase_lasts_as_long_as_asked_for(options, expected):
  values = fedalt.FedAltHyperparameters(**_LOCAL, **options)
  budget = values.private_budget(dict(num_examples=tf.constant(7)))
  assert {**budget, 'batch_size': 2} == dict(expected, batch_size=2)


def test_fedrep_with_one_epoch_each_is_fedalt_bit_for_bit():
  """Baselines B3."""
  epochs = dict(local_steps=0, local_epochs=1, private_epochs=1)
  _, *found = rounds.run('fedrep', **epochs)
  _, *expected = rounds.run('fedalt', **epochs)
  rounds.assert_identical(found, expected)


def test_fedrep_trains_heads_for_ten_epochs_by_default():
  parts = partition.from_scheme(problems.tiny_model(), 'output_layer')
  small = dict(batch_size=2, learning_rate=0.1)
  found = rounds.train(
      fedrep.build_fedrep(parts, fedrep.FedRepHyperparameters(**small)),
      cohorts=((1,),),
  )
  alternating = rounds.train(
      fedalt.build_fedalt(
          parts,
          fedalt.FedAltHyperparameters(
              **small, local_steps=0, local_epochs=1, private_epochs=10
          ),
      ),
      cohorts=((1,),),
  )
  rounds.assert_identical(list(found), list(alternating))
