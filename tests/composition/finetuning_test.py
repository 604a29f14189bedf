"""Metrics of a global model after s local steps."""

import pytest

from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import local_step
from tff_pers.composition import finetuning


def _curve(name, steps, **options):
  process, states, _, _ = rounds.run(name)
  computation = finetuning.build_evaluate_finetuned(
      process, process.tiers['1'], steps, learning_rate=0.1,
      batch_size=2, **options
  )
  clients = problems.tiny_clients()
  return computation(
      states[-1], [dict(adapt=a, test=clients[0]) for a in clients[1:3]]
  )


@pytest.mark.parametrize('name', ['fedavg', 'scaffold'])
def test_after_s_steps_it_is_what_fine_tuned_fedavg_deploys(name):
  found = _curve(
      name, [0, 1, 4], local=local_step.LocalStep(momentum=0.5)
  )
  _, states, _, _ = rounds.run(name)
  clients = problems.tiny_clients()
  for steps in (1, 4):
    process = rounds.run(
        'fedavg_finetuned', steps=steps, momentum=0.5
    )[0]
    state = process.initialize_seeded(rounds.SEED)
    state['weights'], state['round'] = states[-1]['weights'], 3
    expected = process.evaluate(
        state, [(), ()],
        [dict(adapt=a, test=clients[0]) for a in clients[1:3]],
    )
    for one, other in zip(found, expected):
      assert dict(one[str(steps)]) == pytest.approx(dict(other), rel=1e-12)
  # Clients differ in what they learn, not in what they are given.
  zero = [one['0']['loss'] for one in found]
  assert zero[0] == zero[1]
  four = [one['4']['loss'] for one in found]
  assert abs(four[0] - four[1]) > 1e-3 and abs(four[0] - zero[0]) > 1e-3
