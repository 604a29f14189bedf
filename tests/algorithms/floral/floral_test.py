"""FLoRAL: reductions, routers, server step, evaluation."""

import collections
import functools
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import fedavg
from baselines import local_adaptor
from tests import built
from tests import problems
from tests.baselines import rounds
from tff_pers.aggregators import router as router_aggregation
from tff_pers.algorithms.floral import floral
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.client_works import router_alone
from tff_pers.client_works import router_training
from tff_pers.config import methods
from tff_pers.config import settings
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.evaluation import clusters
from tff_pers.models import adaptor_plan
from tff_pers.models import adaptors
from tff_pers.models import functional
from tff_pers.models import zoo

_GROUPS = np.array([0, 1, 1, 0, 1], np.int32)
_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)


def _hyperparameters(**options):
  return floral_hp.FloralHyperparameters(**{**_LOCAL, **options})


def _adapted(num_adaptors=2):
  return adaptors.floral(problems.tiny_model(), num_adaptors, rank=1)


@functools.lru_cache(maxsize=None)
def _run(num_adaptors=2, **options):
  """Returns (process, *rounds.train(process)) on the tiny task."""
  process = floral.build_floral(
      _adapted(num_adaptors), _hyperparameters(**options), groups=_GROUPS,
      num_clients=5,
  )
  return (process, *rounds.train(process))


def _evaluate(process, state, client_states, data):
  return process.evaluate(
      state, client_states, [dict(adapt=d, test=d) for d in data]
  )


@pytest.mark.parametrize('num_clients, groups, num_adaptors', [
    (2, None, 2), (10, None, 3), (20, None, 6), (139, None, 8),
    (10, [0, 1] * 5, 2),
])
def test_unknown_clusters_have_three_clients_or_more(
    monkeypatch, num_clients, groups, num_adaptors
):
  monkeypatch.setattr(
      floral, 'build_floral', lambda adapted, *_, **__: adapted.num_adaptors
  )
  task = types.SimpleNamespace(
      model=problems.tiny_model(), num_clients=num_clients, groups=groups,
      has_groups=groups is not None, client_weighting='examples',
  )
  assert methods.get('floral').build(task, _hyperparameters()) == num_adaptors


def test_without_adaptors_it_is_fedavg_bit_for_bit():
  """FLoRAL check 6, baselines B1: the same seeds, the same batches."""
  _, states, client_states, metrics = _run(num_adaptors=0)
  _, plain, _, plain_metrics = rounds.run('fedavg')
  for state, expected in zip(states, plain):
    rounds.assert_identical(state['weights']['base'], expected['weights'])
  for a, b in zip(metrics, plain_metrics):
    assert a['train_loss'] == b['train_loss']
  assert all(s['router'].shape == (0,) for s in client_states.values())


class _SameAdaptors(adaptors.AdaptedModel):
  """Adaptors that all start as the only one of a local adaptor."""

  def initial_adaptors(self, seed):
    only = _adapted(1).initial_adaptors(seed)
    return tf.nest.map_structure(
        lambda leaf: tf.repeat(leaf, self.num_adaptors, axis=0), only
    )


def _as(subclass, adapted):
  return subclass(adapted.base, adapted.num_adaptors, adapted.plan)


def test_one_private_adaptor_per_client_is_local_adaptor():
  """FLoRAL check 6: C = N, every client the only one of its cluster."""
  process = floral.build_floral(
      _as(_SameAdaptors, _adapted(5)), _hyperparameters(router='oracle'),
      groups=np.arange(5), num_clients=5,
  )
  states, _, _ = rounds.train(process)
  own = local_adaptor.build_local_adaptor(
      _adapted(1), local_adaptor.LocalAdaptorHyperparameters(**_LOCAL)
  )
  own_states, own_clients, _ = rounds.train(own)
  for state, expected in zip(states, own_states):
    rounds.assert_close(state['weights']['base'], expected['weights'])
  for client, adaptor in own_clients.items():
    rounds.assert_close(
        tf.nest.map_structure(
            lambda leaf, c=client: leaf[c:c + 1],
            states[-1]['weights']['adaptors'],
        ),
        adaptor,
    )


class _FullModels(adaptors.AdaptedModel):
  """Full adaptors of a base that is a constant."""

  def effective(self, base_weights, own, mix):
    base = tf.nest.map_structure(tf.stop_gradient, base_weights)
    return super().effective(base, own, mix)


def test_full_adaptors_with_one_hot_routers_are_fedavg_per_cluster():
  """FLoRAL check 6: C independent runs of FedAvg, partial participation."""
  cohorts = [(0, 1, 2), (3, 4), (0, 2, 4)]
  adapted = _as(_FullModels, adaptors.full(problems.tiny_model(), 2))
  process = floral.build_floral(
      adapted, _hyperparameters(router='oracle'), groups=_GROUPS,
      num_clients=5,
  )
  weights = rounds.train(process, cohorts)[0][-1]['weights']
  plain = fedavg.build_fedavg(
      problems.tiny_model(), fedavg.FedAvgHyperparameters(**_LOCAL)
  )
  for c in range(2):
    members = [[k for k in s if _GROUPS[k] == c] for s in cohorts]
    expected = rounds.train(plain, members)[0][-1]['weights']
    rounds.assert_close(
        adapted.effective(
            weights['base'], weights['adaptors'],
            tf.one_hot(c, 2, dtype=tf.float64),
        ),
        expected,
    )


def test_server_averages_with_the_routers_after_training():
  """FLoRAL check 5, through the process: cohort 2 of `rounds.COHORTS`."""
  process, states, client_states, _ = _run()
  before = states[1]
  messages = process.parts.dispatch(before, [2, 0])
  data = problems.tiny_clients()
  old = _run_until(process, 2)
  outputs = process.parts.work(
      messages, [old[2], old[0]], [data[2], data[0]]
  )
  n = np.array([5.0, 3.0])
  for output, k, size in zip(outputs, (2, 0), n):
    # Nothing but the client changes its router.
    np.testing.assert_array_equal(
        output['client_state']['router'], client_states[k]['router']
    )
    pi = tf.nn.softmax(output['client_state']['router']).numpy()
    np.testing.assert_allclose(output['weight'], [size, *(size * pi)], 1e-6)
    assert np.abs(pi - 0.5).max() > 1e-4
  weights = np.stack([output['weight'] for output in outputs])
  expected = collections.OrderedDict(
      adaptors=tf.nest.map_structure(
          lambda w, a, b: w - np.stack([
              np.average([a[c], b[c]], 0, weights[:, 1 + c]) for c in range(2)
          ]),
          before['weights']['adaptors'],
          *[output['update']['adaptors'] for output in outputs],
      ),
      base=tf.nest.map_structure(
          lambda w, a, b: w - np.average([a, b], 0, n),
          before['weights']['base'],
          *[output['update']['base'] for output in outputs],
      ),
  )
  # Weights are float32.
  rounds.assert_close(states[2]['weights'], expected, atol=1e-6)


def _run_until(process, num_rounds):
  return rounds.train(process, rounds.COHORTS[:num_rounds])[1]


def test_deploys_the_merged_weights_and_reports_the_router():
  process, states, client_states, _ = _run()
  data = problems.tiny_clients()
  result = _evaluate(process, states[-1], [client_states[2]], [data[2]])[0]
  logits = tf.constant(client_states[2]['router'])
  np.testing.assert_array_equal(result['router'], tf.nn.softmax(logits))
  rounds.assert_close(
      process.client_model(states[-1], client_states[2], 2),
      _adapted().merge(states[-1]['weights'], logits),
  )


def _learned(state, client, adapted, steps):
  """Returns the router that a client learns alone, float[C]."""
  weights = tf.nest.map_structure(tf.constant, state['weights'])
  return tf.nn.softmax(
      router_alone.learn_router(
          adapted, tf.zeros([adapted.num_adaptors], tf.float64), weights,
          rounds.tensors(problems.tiny_clients()[client]), num_steps=steps,
          learning_rate=1.0, router_step='scale_free',
      )
  )


@pytest.mark.parametrize('router, known', [
    ('learned', [0.5, 0.5]), ('oracle', [0.0, 1.0])
])
def test_clients_that_never_train_learn_a_router(router, known):
  """A client that has not been sampled yet keeps its initial router."""
  process, states, _, _ = _run(router=router)
  state = states[-1]
  data = problems.tiny_clients()[4]
  waiting, new = _evaluate(
      process, state, [process.initialize_client(state, i) for i in (4, 5)],
      [data, dict(data, index=np.int32(5))],
  )
  np.testing.assert_array_equal(waiting['router'], known)
  learned = _learned(state, 4, _adapted(), steps=5)
  np.testing.assert_allclose(new['router'], learned, rtol=1e-6)
  assert np.abs(new['router'] - 0.5).max() > 1e-3


def test_stateless_clients_warm_their_router_up_in_every_round():
  process, states, client_states, _ = _run(router_state='stateless')
  assert not process.is_stateful and set(client_states.values()) == {()}
  state, data = states[-1], problems.tiny_clients()[3]
  messages = process.parts.dispatch(state, [3])
  output = process.parts.work(messages, [()], [data])[0]
  warm = _learned(state, 3, _adapted(), steps=20)
  router, weights, _ = router_training.train(
      _adapted(), tf.math.log(warm),
      tf.nest.map_structure(tf.constant, state['weights']),
      rounds.tensors(data), rates=router_training.Rates(0.1, 0.1, 0.1),
      seed=random.key(rounds.SEED, 3, 3, 0),
      mix=router_training.build_softmax_mix(), router_step='scale_free',
      num_steps=5, batch_size=2,
  )
  np.testing.assert_allclose(
      output['weight'], [6, *(6 * tf.nn.softmax(router))], rtol=1e-6
  )
  rounds.assert_close(
      output['update'],
      tf.nest.map_structure(tf.subtract, state['weights'], weights),
  )
  result = _evaluate(process, state, [()], [data])[0]
  np.testing.assert_allclose(result['router'], warm, rtol=1e-6)


def test_noise_is_for_training_and_a_minimum_for_deployment_too():
  """The router itself, in weights and reports, knows neither."""
  process = floral.build_floral(
      _adapted(),
      _hyperparameters(
          min_mix_prob=0.2, router_noise=1.0, router_learning_rate=0.0
      ),
  )
  state, data = _run()[1][-1], problems.tiny_clients()[0]
  logits = np.array([3.0, -3.0])
  pi = tf.nn.softmax(logits).numpy()
  own = collections.OrderedDict(router=logits)
  weights = tf.nest.map_structure(tf.constant, state['weights'])

  messages = process.parts.dispatch(state, [0])
  output = process.parts.work(messages, [own], [data])[0]
  np.testing.assert_allclose(output['weight'], [3, *(3 * pi)], rtol=1e-6)
  _, moved, _ = router_training.train(
      _adapted(), tf.constant(logits), weights, rounds.tensors(data),
      rates=router_training.Rates(0.1, 0.1),
      seed=random.key(rounds.SEED, 3, 0, 0),
      mix=router_training.build_softmax_mix(noise=1.0, minimum=0.2),
      num_steps=5, batch_size=2,
  )
  rounds.assert_close(
      output['update'], tf.nest.map_structure(tf.subtract, weights, moved)
  )

  result = _evaluate(process, state, [own], [data])[0]
  np.testing.assert_allclose(result['router'], pi)
  rounds.assert_close(
      process.client_model(state, own, 0),
      _adapted().effective(
          weights['base'], weights['adaptors'],
          tf.constant([pi[0], 0.2], tf.float64),
      ),
  )


@pytest.mark.parametrize('options, rate, changed', [
    (dict(), 0.1, dict()),
    (dict(adaptor_learning_rate=0.03), 0.03, dict()),
    (dict(precondition=False), 0.1, dict(precondition=False)),
    (dict(router_step='gradient'), 0.1, dict(router_step='gradient')),
])
def test_adaptors_may_have_their_own_rate_or_no_preconditioner(
    options, rate, changed
):
  """A cohort of one client: the server takes over what it has trained."""
  process = floral.build_floral(_adapted(), _hyperparameters(**options))
  states, client_states, _ = rounds.train(process, cohorts=((3,),))
  router, weights, _ = router_training.train(
      _adapted(), tf.zeros([2], tf.float64),
      tf.nest.map_structure(
          tf.constant, process.initialize_seeded(rounds.SEED)['weights']
      ),
      rounds.tensors(problems.tiny_clients()[3]),
      rates=router_training.Rates(0.1, rate, 0.1),
      seed=random.key(rounds.SEED, 0, 3, 0),
      mix=router_training.build_softmax_mix(), num_steps=5, batch_size=2,
      **{'router_step': 'scale_free', **changed},
  )
  rounds.assert_close(states[0]['weights'], weights)
  rounds.assert_close(client_states[3]['router'], router)


def _described_model():
  """A model whose weights are of all kinds; it predicts nothing."""
  kinds = [
      ('conv/kernel', 'conv', 'conv', (3, 3, 4, 8)),
      ('conv/bias', 'conv', 'bias', (8,)),
      ('norm/scale', 'norm', 'norm', (8,)),
      ('dense/kernel', 'dense', 'dense', (20, 12)),
      ('embed/table', 'embed', 'embedding', (30, 12)),
  ]
  return functional.FunctionalModel(
      init=lambda seed: tuple(tf.zeros(shape) for *_, shape in kinds),
      predict=None, example_loss=None,
      x_spec=tf.TensorSpec([None, 1]), y_spec=tf.TensorSpec([None], tf.int32),
      layers=tuple(functional.LayerWeight(*kind) for kind in kinds),
  )


@pytest.mark.parametrize('hyperparameters, options', [
    (dict(), dict(budget=0.01)),
    (dict(conv_form='in'), dict(budget=0.01, conv_form='in')),
    (dict(adapt_norm=True), dict(budget=0.01, adapt_norm=True)),
    (dict(adapt_bias=False), dict(budget=0.01, adapt_bias=False)),
    (dict(adapt_embedding=True), dict(budget=0.01, adapt_embedding=True)),
    (dict(zero_factor='input'), dict(budget=0.01, zero_factor='input')),
    (dict(budget_=0.9), dict(budget=0.9)),
    (dict(rank=2), dict(rank=2)),
    (dict(min_rank=3), dict(budget=0.01, min_rank=3)),
])
def test_hyperparameters_say_what_adaptors_are_like(hyperparameters, options):
  model = _described_model()
  found = _hyperparameters(**hyperparameters).adapt(model, 3)
  assert found.num_adaptors == 3
  assert found.plan == adaptors.floral(model, 3, **options).plan
  if hyperparameters:
    assert found.plan != _hyperparameters().adapt(model, 3).plan


@pytest.mark.parametrize('kind, adapted', [
    ('all', ['conv/kernel', 'conv/bias', 'dense/kernel']),
    ('conv', ['conv/kernel', 'conv/bias']),
    ('dense', ['dense/kernel']),
])
def test_kernels_of_one_kind_have_adaptors(kind, adapted):
  # Their biases follow them, as in the paper's Table 5.
  plan = _hyperparameters(adapt_kernels=kind).adapt(_described_model(), 3).plan
  assert [x.weight.name for x in plan if x.adaptor] == adapted


def test_kernels_of_one_kind_are_no_choice_where_there_is_but_one():
  model = zoo.build('mlp_small', tf.TensorSpec([None, 4]), 2)
  with pytest.raises(ValueError, match='left at all .*, found dense'):
    _hyperparameters(adapt_kernels='dense').adapt(model, 3)


@pytest.mark.parametrize('num_classes, options, rank, scale', [
    (10, {}, 4, 9 / 4), (3, {}, 2, 1), (2, {}, 1, 1), (0, {}, 1, 1),
    # 0.9 * 640 / 74 = 7.8: the budget allows more.
    (10, dict(budget_=0.9), 7, 9 / 7),
    # The paper's, and ranks that are given, have the paper's rate.
    (10, dict(min_rank=1), 1, 1), (10, dict(rank=3), 3, 1),
])
def test_least_rank_has_a_direction_for_every_class_but_one(
    num_classes, options, rank, scale
):
  """min(4, m - 1) of m classes; the rate is eta (m - 1) / r."""
  name = 'logistic_regression' if num_classes else 'linear_regression'
  model = zoo.build(name, tf.TensorSpec([None, 64]), num_classes)
  hyperparameters = _hyperparameters(**options)
  adapted = hyperparameters.adapt(model, 2)
  assert adaptor_plan.least_rank(adapted.plan) == rank
  np.testing.assert_allclose(
      hyperparameters.adaptor_rate(adapted), 0.1 * scale, rtol=1e-12
  )


def test_many_classes_have_no_more_directions_than_a_small_layer():
  """An LSTM of 32 units before 1,000 words: 32 / 4, not 999 / 4."""
  model = zoo.build('lstm_small', tf.TensorSpec([None, 20], tf.int32), 1004)
  hyperparameters = _hyperparameters()
  np.testing.assert_allclose(
      hyperparameters.adaptor_rate(hyperparameters.adapt(model, 2)), 0.1 * 8,
      rtol=1e-12,
  )


def test_adaptors_may_have_their_own_server_rate():
  """The release's damped step: a <- a + 0.1 (mean - a); the base is whole."""
  start = _run()[0].initialize_seeded(rounds.SEED)['weights']
  plain = _run()[1][0]['weights']
  damped = _run(adaptor_server_learning_rate=0.1)[1][0]['weights']
  rounds.assert_close(damped['base'], plain['base'])
  rounds.assert_close(
      damped['adaptors'],
      tf.nest.map_structure(
          lambda a, b: a + 0.1 * (b - a), start['adaptors'], plain['adaptors']
      ),
      atol=1e-7,  # TFF keeps server rates in float32.
  )


def test_server_adam_divides_the_mean_by_its_size():
  """The first step of Adam is the learning rate times the sign."""
  start = _run()[0].initialize_seeded(rounds.SEED)['weights']
  plain = _run()[1][0]['weights']
  adam = _run(server_optimizer='adam', server_learning_rate=0.001)[1]
  for a, b, c in zip(*map(
      tf.nest.flatten, (start, plain, adam[0]['weights'])
  )):
    mean = b - a
    np.testing.assert_allclose(
        c - a, 0.001 * mean / (np.abs(mean) + 1e-7 / np.sqrt(0.001)),
        rtol=1e-3, atol=1e-9,
    )
  assert adam[-1]['optimizer']['base']['step'] == 3


def test_centering_moves_the_mean_adaptor_after_the_server_step():
  """FLoRAL section 2.5, with p(c) of the cohort after training."""
  process, states, _, _ = _run()
  centered = _run(center=True)[1][0]['weights']
  routers = _run_until(process, 1)
  pi = [tf.nn.softmax(routers[k]['router']) for k in rounds.COHORTS[0]]
  n = [3, 5]
  expected = _adapted().center(
      tf.nest.map_structure(tf.constant, states[0]['weights']),
      tf.constant(np.average(pi, 0, n)),
  )
  for c in range(2):  # Factors are known up to a sign; their products are not.
    only = tf.one_hot(c, 2, dtype=tf.float64)
    found, wanted = (
        _adapted().effective(w['base'], w['adaptors'], only)
        for w in (centered, expected)
    )
    rounds.assert_close(found, wanted, atol=1e-7)
  moved = np.abs(centered['base'][0] - states[0]['weights']['base'][0])
  assert moved.max() > 1e-5


def test_centering_needs_an_aggregator_with_shares():
  with pytest.raises(ValueError, match='must be built with_shares'):
    floral.build_floral(
        _adapted(), floral_hp.FloralHyperparameters(center=True),
        model_aggregator=router_aggregation.RouterWeightedFactory(),
    )


@pytest.mark.parametrize('groups, found', [
    (None, 'unknown'), ([0, -1, 1, 0, 1], 'unknown'), ([0, 2, 1, 0, 1], '3'),
])
def test_oracle_needs_groups_with_an_adaptor_each(groups, found):
  with pytest.raises(ValueError, match=f'2 adaptors and {found} clusters'):
    floral.build_floral(
        _adapted(), _hyperparameters(router='oracle'), groups=groups
    )


def test_mfl_routers_are_the_exponential_weights_of_the_models():
  process, states, client_states, _ = _run(
      objective='mfl', mfl_rate=0.5
  )
  assert set(client_states.values()) == {()}
  state, data = states[-1], problems.tiny_clients()[3]
  result = _evaluate(process, state, [()], [data])[0]
  models = [
      _adapted().effective(
          state['weights']['base'], state['weights']['adaptors'],
          tf.one_hot(c, 2, dtype=tf.float64),
      )
      for c in range(2)
  ]
  batch = client_data.Batch(
      data['examples']['x'], data['examples']['y'], np.ones([6], bool), None
  )
  losses = [_adapted().base.batch_loss(w, batch) for w in models]
  np.testing.assert_allclose(
      result['router'], tf.nn.softmax(-0.5 * tf.stack(losses))
  )
  assert np.abs(result['router'][0] - 0.5) > 1e-3
  with pytest.raises(ValueError, match='`router_noise` must be left at 0'):
    _hyperparameters(objective='mfl', router_noise=1.0)
  with pytest.raises(ValueError, match='must have adaptors with objective=mfl'):
    floral.build_floral(_adapted(0), _hyperparameters(objective='mfl'))


@pytest.mark.slow
@pytest.mark.parametrize('options', [
    dict(), dict(objective='mfl'), dict(router_state='stateless'),
])
def test_routers_find_the_clusters(options):
  """FLoRAL checks 12 and 2.6: two linear maps, far too few examples each.

  FedAvg stays above 1 (check 12: 2.7 to 10); with clusters found the loss
  falls by orders of magnitude (measured after 400 rounds: below 0.05).
  """
  task = built.task('floral_linear', seed=1)
  defaults = dict(settings.TABLE['floral_linear'][''], **options)
  process = floral.build_floral(
      adaptors.floral(task.model, 2, rank=1),
      floral_hp.FloralHyperparameters(**defaults), num_clients=10,
  )
  state = process.initialize_seeded(0)
  states = [process.initialize_client(state, k) for k in range(10)]
  for _ in range(400):
    state, states, _ = process.next(state, states, list(task.train)).values()
  data = [dict(adapt=a, test=b) for a, b in zip(task.train, task.test)]
  results = process.evaluate(state, states, data)
  found = np.array([r['router'].argmax() for r in results])
  assert clusters.recovery(found, task.groups).accuracy == 1.0
  assert np.mean([r['loss'] for r in results]) < 0.05


@pytest.mark.slow
def test_runs_in_tff_learning_on_sequences():
  """Stateless clients, TFF's own composition, clipped sums."""
  adapted, options = _adapted(), dict(
      router_state='stateless', local_steps=0, local_epochs=1
  )
  work = floral.build_floral_client_work(adapted, _hyperparameters(**options))
  weights_type = work.next.type_signature.parameter[1].member

  @tff.tensorflow.computation
  def initial_weights():
    return tff.learning.models.ModelWeights(
        collections.OrderedDict(
            adaptors=adapted.initial_adaptors(0),
            base=adapted.base.initial_weights(0),
        ),
        (),
    )

  learning = tff.learning.templates.compose_learning_process(
      initial_weights,
      tff.learning.templates.build_broadcast_process(weights_type),
      work,
      router_aggregation.RouterWeightedFactory(
          tff.aggregators.clipping_factory(1e3, tff.aggregators.SumFactory())
      ).create(
          weights_type['trainable'], tff.TensorType(np.float32, [3])
      ),
      tff.learning.templates.build_apply_optimizer_finalizer(
          tff.learning.optimizers.build_sgdm(1.0), weights_type
      ),
  )
  data = [
      [collections.OrderedDict(client['examples'])]
      for client in problems.tiny_clients()[:3]
  ]
  state, losses = learning.initialize(), []
  for _ in range(3):
    output = learning.next(state, data)
    state = output.state
    losses.append(output.metrics['client_work']['train']['loss'])
  assert losses[2] < losses[0]
  trained = state.global_model_weights.trainable
  assert all(np.any(leaf) for leaf in tf.nest.flatten(trained['adaptors']))
  with pytest.raises(ValueError, match='`router_state` must be stateless'):
    floral.build_floral_client_work(adapted, _hyperparameters())
  for other in (dict(router='oracle'), dict(objective='mfl')):
    with pytest.raises(ValueError, match='`router` must be learned and'):
      floral.build_floral_client_work(adapted, _hyperparameters(**other))


def test_reports_how_undecided_routers_are():
  metrics = [m['router_entropy'] for m in _run()[3]]
  assert all(0 < entropy < np.log(2) for entropy in metrics)
  assert all(m['router_entropy'] == 0 for m in _run(router='oracle')[3])


@pytest.mark.parametrize('options', [
    dict(router_step='gradient', router_learning_rate=0.2),
    # Slopes are far below 1e-3: as a gradient step of 1000 C times the rate.
    dict(router_step='scale_free', router_learning_rate=0.2 / 2000),
])
def test_adaptors_leave_the_saddle_as_the_documentation_says(options):
  """Differences grow by sqrt(2 eta eta_router) D / C per step.

  Two clusters at +-1, so D = 1; C = 2 adaptors of no rank, one step a round.
  """
  quadratics = problems.Quadratics(
      np.ones([2, 1, 1]), np.array([[1.0], [-1.0]]), [1, 1], np.zeros(1)
  )
  process = floral.build_floral(
      adaptors.full(quadratics.model, 2),
      floral_hp.FloralHyperparameters(
          local_steps=1, batch_size=1, learning_rate=0.2, **options
      ),
  )
  state, differences = process.initialize_seeded(0), []
  state['weights']['adaptors'] = tf.nest.map_structure(
      lambda leaf: leaf + np.array([[1e-7], [0]]), state['weights']['adaptors']
  )
  own = [process.initialize_client(state, k) for k in range(2)]
  for _ in range(50):
    output = process.next(state, own, quadratics.clients())
    state, own = output['state'], output['client_states']
    [leaf] = tf.nest.flatten(state['weights']['adaptors'])
    differences.append(float(np.abs(leaf[0] - leaf[1]).max()))
  growth = np.log(differences[-1] / differences[-21]) / 20
  assert differences[-1] < 1e-4  # Still close to the saddle.
  # To first order in the rates.
  np.testing.assert_allclose(growth, np.sqrt(2 * 0.2 * 0.2) / 2, rtol=0.05)


def test_opposite_clusters_choose_different_adaptors():
  """Local steps make the same adaptor the better one for both of them.

  Which one depends on the adaptors' random factors, not on labels; clusters
  that share it average it to zero.
  """
  rng = np.random.default_rng(2)
  separator = rng.normal(size=20)
  x = rng.normal(size=[6, 60, 20]).astype(np.float32)
  y = (x @ separator > 0) ^ (np.arange(6) % 2 > 0)[:, None]
  clients = [client_data.dense(i, x[i], y[i].astype(np.int32)) for i in range(6)]
  model = zoo.build(
      'logistic_regression', tf.TensorSpec([None, 20]), num_classes=2
  )
  process = floral.build_floral(
      adaptors.floral(model, 2),
      floral_hp.FloralHyperparameters(
          local_steps=20, batch_size=20, learning_rate=0.1
      ),
  )
  states, client_states, _ = rounds.train(process, [range(6)] * 15, clients)
  own = [client_states[i] for i in range(6)]
  results = _evaluate(process, states[-1], own, clients)
  chosen = [np.argmax(result['router']) for result in results]
  assert chosen == chosen[:2] * 3 and chosen[0] != chosen[1]
  assert min(result['accuracy'] for result in results) > 0.9
