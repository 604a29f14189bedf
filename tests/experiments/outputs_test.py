"""What a run leaves behind: how many parameters a client handles."""

import dataclasses

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import problems
from tests.baselines import rounds
from tff_pers.analysis import cost as cost_lib
from tff_pers.config import methods
from tff_pers.data import task as task_lib
from tff_pers.experiments import outputs
from tff_pers.testing import tiny


@pytest.mark.parametrize(
    'name, models, more',
    [
        ('fedavg', 1, 0),
        ('ensemble', 4, 4),  # And the router.
        ('ifca', 2, 0),
        ('ditto', 2, 0),  # The shared and the personal model.
        ('local_only', 1, 0),
    ],
)
def test_parameters_of_a_client_are_what_it_gets_and_keeps(name, models, more):
  process = rounds.run(name)[0]
  # 3 features, 4 hidden units, 2 classes.
  size = 4 * 4 + 5 * 2
  model = type('Model', (), dict(num_parameters=size))
  assert outputs.parameters(process, model, None) == dict(
      model=size, client=models * size + more
  )


def test_share_of_private_parameters_is_that_of_the_split():
  values = methods.get('fedper').hyperparameters(split='bias')
  found = outputs.parameters(
      rounds.run('fedper', split='bias')[0], problems.tiny_model(), values
  )
  assert found['private_share'] == 6 / 26


def test_macs_are_a_mean_over_what_clients_visit():
  """Three clients of 6 examples with the model, one of 2 with an eighth."""
  task = dataclasses.replace(
      tiny.task(), train=tiny.clients([6, 6, 6, 2], seed=0),
      tiers=np.array([0, 0, 0, 1]),
  )
  values = methods.get('fedhm').hyperparameters(
      tiers='1:0.125', local_epochs=1, local_steps=0
  )
  process = methods.get('fedhm').build(task, values)
  whole, eighth = map(cost_lib.count_macs, cost_lib.models(process).values())
  found = outputs.cost(process, task, values)
  assert whole > eighth and found['examples'] == 20 / 4
  assert found['macs'] * 20 == pytest.approx(18 * whole + 2 * eighth)
  assert found['rounds_per_update'] == 1
  drawn = dataclasses.replace(task, tiers=None, tier_assignment='dynamic')
  found = outputs.cost(process, drawn, values)
  assert found['macs'] == pytest.approx((whole + eighth) / 2)


def test_updates_by_events_are_shares_of_a_round():
  """A buffer of 3 messages, where a round has 4."""
  task = dataclasses.replace(
      tiny.task(), clients_per_round=4, arrivals=task_lib.Arrivals(2, 5)
  )
  values = methods.get('fedbuff').hyperparameters(buffer_size=3)
  process = methods.get('fedbuff').build(task, values)
  assert outputs.cost(process, task, values)['rounds_per_update'] == 0.75


def test_sizes_that_are_not_fixed_are_unknown():
  floats = tff.TensorType(np.float32, [None, 3])
  integers = tff.TensorType(np.int32, [None])
  assert outputs.num_floats([tff.to_type((floats, integers))]) is None
  assert outputs.num_floats([integers]) == 0


def test_clients_that_have_not_trained_what_they_keep_are_counted():
  assert outputs.absent_sentence(num_kept=0, num_clients=60) == ''
  assert outputs.absent_sentence(num_kept=60, num_clients=60) == ''
  said = outputs.absent_sentence(num_kept=16, num_clients=60)
  assert said.startswith('44 of 60 clients have not trained;')


_HEALTH = {
    'lambda': 2.0, 'lambda_scale': 1e6, 'weights_entropy': 0.5,
    'weights_nonzeros': 4.6, 'weights_self': 0.25, 'weights_alone': 0.05,
    'visits_idle': 0.1,
}


@pytest.mark.parametrize('changes, sentence', [
    ({}, 'Mixing weights: a client learns from 4.6 clients on average, with'
         ' weight 0.25 on itself (entropy 0.50; 1 = uniform weights); 5% of'
         ' clients learn only from themselves; 10% of the last cohort was idle;'
         ' chosen lambda scale kappa = 1,000,000.'),
    (dict(models_used=3.0), 'clients share 3 models; a model learns from 4.6'),
    ({'lambda': 0.0}, 'none, because every round was a warm-up round, '),
    ({'lambda_scale': None}, '; 10% of the last cohort was idle.'),
    ({'visits_idle': None, 'router_used': 1.0, 'router_largest_load': 0.5},
     None),
    ({'router_used': 1.0, 'router_largest_load': 1.0},
     'All clients use the same model or adaptor'),
    ({'visits_idle': None}, None),  # A method with such a column of its own.
])
def test_a_sentence_says_how_much_was_mixed(changes, sentence):
  """Of the last row; NaN of the rows before is not looked at."""
  last = {k: v for k, v in {**_HEALTH, **changes}.items() if v is not None}
  found = outputs.mixing_sentence({
      name: np.array([np.nan, value]) for name, value in last.items()
  })
  assert sentence in found if sentence else not found
