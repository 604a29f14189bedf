"""Split-Mix: several narrow networks; a device trains as many as it can.

Efficient Split-Mix Federated Learning for On-Demand and In-Situ Customization
    Hong, Wang, Wang, Zhou. ICLR 2022.
"""

import collections
import dataclasses
from typing import Any, Callable, Mapping, Sequence

import tensorflow as tf

from baselines import heterofl
from tff_pers import composition
from tff_pers.aggregators import router
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.composition import own_messages
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import random
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import functional
from tff_pers.models import mixtures
from tff_pers.models import submodels
from tff_pers.models import tiers as tiers_lib
from tff_pers.models import width_hyperparameters as width_hp
from tff_pers.numerics import schedule
from tff_pers import tff

_CYCLE_USE = -7  # Separates the order of the bases from a run's other draws.
_OTHERS_USE = 1  # Separates this draw from a client's batches.


@dataclasses.dataclass(frozen=True)
class SplitMixHyperparameters(width_hp.WidthHyperparameters):
  """Hyperparameters of Split-Mix."""

  budgets: str = hp.field(
      'auto',
      'Bases that a client of each tier trains, such as 9:3:2:1; auto: as many'
      ' as match the width of the tier, or with tiers=all its size; rounded.',
  )

  def __post_init__(self):
    super().__post_init__()
    self._given_budgets()

  def bases(self, parts: submodels.Submodels) -> tuple[int, ...]:
    """Returns the number of bases of each tier.

    Args:
      parts: The sub-models of the tiers, the narrowest of which is a base.

    Raises:
      ValueError: If the numbers of budgets and tiers differ.
    """
    given = self._given_budgets()
    if given and len(given) != len(parts.widths):
      raise ValueError(
          f'`budgets` must be {len(parts.widths)}, one for each tier, found'
          f' {self.budgets!r}.'
      )
    if given:
      return given
    if self.tiers in ('all', 'all_smallest'):
      return rounded([model.num_parameters for model in parts.tiers])
    return rounded(parts.widths)

  def _given_budgets(self) -> tuple[int, ...]:
    """Returns the given numbers, () for auto."""
    if self.budgets == 'auto':
      return ()
    texts = self.budgets.split(':')
    if not all(text.isdecimal() and int(text) for text in texts):
      raise ValueError(
          '`budgets` must be auto, or numbers >= 1 with colons between them,'
          f' found {self.budgets!r}.'
      )
    return tuple(map(int, texts))


def rounded(sizes: Sequence[float]) -> tuple[int, ...]:
  """Returns the multiple of the smallest size nearest to each size."""
  # In floats, 2.8 / 0.4 is 6.9999999.
  return tuple(round(size / min(sizes)) for size in sizes)


@builders.checked
def build_splitmix(
    base: functional.FunctionalModel,
    budgets: Sequence[int],
    names: Sequence[float],
    assign: tier_assignment.Assign,
    num_clients: int,
    hyperparameters: SplitMixHyperparameters = SplitMixHyperparameters(),
    *,
    client_weighting: str = 'uniform',
) -> process.PersonalizedProcess:
  """Builds Split-Mix.

    client i, of budget b: the first base is the next one of a cycle through all
              M, which all clients of the run share and which is reshuffled
              after each pass; b - 1 others are drawn without replacement
              K times, with a minibatch: w_im <- w_im - eta g_i(w_im), for each
    server  : w_m <- w_m - sum_i q_i (w_m - w_im) / sum_i q_i, over the clients
              i that trained base m; without any it stays

  M is the largest budget. Server state: `models`, a table of M bases from
  independent initializations, and `position` in the cycle, which only clients
  that send a message advance. Clients are stateless. A client of budget b
  deploys the first b bases, and predicts with the mean of their logits;
  `evaluate_global` does so for every tier. With M = 1 it is FedAvg of the base.

  Args:
    base: The narrow model.
    budgets: b of each tier, >= 1.
    names: Numbers of the tiers.
    assign: The tier of a client, see `data.tiers.assign`.
    num_clients: N.
    hyperparameters: See `SplitMixHyperparameters`; `tiers` and `budgets` are
      arguments.
    client_weighting: q_i, see `client_work.client_weight`.
  """
  num_bases = max(budgets)

  def first_bases(models, fields, index):
    return _first(
        models, budgets, assign(fields['seed'], fields['round'], index)
    )

  def first_rows(budget: int) -> Callable[[Any], Any]:
    return lambda state: tf.nest.map_structure(
        lambda table: table[:budget], state['models']
    )

  return composition.compose(
      base,
      init=lambda seed: collections.OrderedDict(
          models=mixtures.initial_models(base, num_bases, seed),
          position=tf.constant(0),
      ),
      send=own_messages.Numbered(
          lambda state: dict(
              models=state['models'], position=state['position']
          ), 'position', num_clients,
      ),
      work=_build_work(
          base, budgets, assign, hyperparameters, client_weighting
      ),
      aggregator=dict(
          models=router.RouterWeightedFactory(),
          position=tff.aggregators.SumFactory(),
      ),
      finalize=lambda state, sums: dict(
          models=local_sgd.descend(
              state['models'], sums['models']['adaptors'], 1.0
          ),
          position=state['position'] + sums['position'],
      ),
      deploy=lambda message, own, data: first_bases(
          message['models'], message, data['index']
      ),
      client_model=lambda state, own, index: first_bases(
          state['models'], state, index
      ),
      deployed=mean_of_any(base, budgets),
      tiers={
          f'{name:g}': composition.Tier(
              mean_of(base, budget), first_rows(budget)
          )
          for name, budget in zip(names, budgets)
      },
  )


def _first(models, budgets: Sequence[int], tier):
  """Returns the bases of a tier, the first rows of a table."""
  return tiers_lib.switch(
      budgets, tier, lambda k: tf.nest.map_structure(
          lambda table: table[:budgets[k]], models
      ),
  )


def cyclic(seed: tf.Tensor, number: tf.Tensor, num_bases: int) -> tf.Tensor:
  """Returns the base of draw `number` of the cycle, an int32 scalar."""
  order = schedule.permutation(
      seed, number // num_bases, num_bases, _CYCLE_USE
  )
  return order[number % num_bases]


def chosen(
    message: Mapping[str, Any], data: Mapping[str, Any], budget: int,
    num_bases: int,
) -> tf.Tensor:
  """Returns the bases that a client trains, int32[budget]."""
  first = cyclic(message['seed'], message['position'], num_bases)
  draws = tf.random.stateless_uniform(
      [num_bases], client_work.key(message, data, use=_OTHERS_USE)
  )
  draws = tf.tensor_scatter_nd_update(draws, [[first]], [-1.0])
  return tf.argsort(draws)[:budget]


def _build_work(base, budgets, assign, hyperparameters, client_weighting):
  """Returns the client work."""
  num_bases = max(budgets)
  sizes = [float(base.dtype.size * base.num_parameters * b) for b in budgets]

  def update(message, client_state, data):

    @tf.autograph.experimental.do_not_convert  # Else `map_fn` takes seconds.
    def train_one(own):
      return local_sgd.train(
          base, own, data,
          learning_rate=local_step.scheduled(
              hyperparameters, message, hyperparameters.learning_rate
          ),
          seed=client_work.key(message, data),
          local=local_step.build(hyperparameters), **hyperparameters.budget(),
      )

    def train(bases):
      """Returns (differences, a table of all bases; trained bases; loss)."""
      models = tf.nest.map_structure(
          lambda table: tf.gather(table, bases), message['models']
      )
      dtype = base.dtype
      final, losses = tf.map_fn(
          train_one, models,
          fn_output_signature=(
              tf.nest.map_structure(
                  lambda spec: tf.TensorSpec(spec.shape, spec.dtype), base.spec
              ), dtype,
          ),
      )
      table = lambda rows: tf.scatter_nd(
          bases[:, None], rows, [num_bases, *rows.shape[1:]]
      )
      return tf.nest.map_structure(
          table, local_sgd.difference(models, final)
      ), table(tf.ones(bases.shape, dtype)), tf.reduce_mean(losses)

    tier = assign(message['seed'], message['round'], data['index'])
    differences, is_trained, loss = tiers_lib.switch(
        budgets, tier,
        lambda k: train(chosen(message, data, budgets[k], num_bases)),
    )
    num_bytes = tf.gather(tf.constant(sizes), tier)
    weight = client_work.client_weight(
        client_weighting, data, hyperparameters.batch_size
    )
    return client_work.ClientOutput(
        client_state=client_state,
        update=collections.OrderedDict(
            # `RouterWeightedFactory` averages each row of a table with weights
            # of its own; here a row is a base model.
            models=collections.OrderedDict(adaptors=differences, base=()),
            position=tf.constant(1),
        ),
        weight=router.router_weight(weight, is_trained),
        loss=loss,
        bytes_down=num_bytes,
        bytes_up=num_bytes,
    )

  return client_work.ClientWork(update)


def mean_of(
    base: functional.FunctionalModel, num_bases: int
) -> functional.FunctionalModel:
  """Returns the model over a table of bases that averages their outputs."""

  def init(key):
    models = [
        base.init(random.fold_in(key, number)) for number in range(num_bases)
    ]
    return tf.nest.map_structure(lambda *leaves: tf.stack(leaves), *models)

  def predict(weights, *rest):
    return tf.add_n([
        base.predict(own, *rest)
        for own in mixtures.unstack(weights, num_bases)
    ]) / num_bases

  def penalty(weights):
    return tf.add_n(
        [base.penalty(own) for own in mixtures.unstack(weights, num_bases)]
    ) / num_bases

  return dataclasses.replace(
      base, init=init, predict=predict, penalty=base.penalty_by(penalty),
      layers=None, takes_factors=False, slim=None, units=None,
      name=f'mean of {num_bases} {base.name}',
  )


def mean_of_any(
    base: functional.FunctionalModel, budgets: Sequence[int]
) -> functional.FunctionalModel:
  """Returns the model over tables with the number of bases of any tier."""
  whole = mean_of(base, max(budgets))

  def init(key):
    return _first(whole.init(key), budgets, tiers_lib.some_tier(key))

  def mean(of_base):
    return lambda weights, *rest: tf.reduce_mean(
        tf.map_fn(
            lambda own: of_base(own, *rest), weights,
            fn_output_signature=base.dtype,
        ), axis=0,
    )

  return dataclasses.replace(
      whole, init=init, predict=mean(base.predict),
      penalty=base.penalty_by(mean(base.penalty)),
  )


@methods.register(
    'splitmix', SplitMixHyperparameters, needs=('widths',),
    summary='narrow networks, as many as a device can train (Hong 2022)',
    travels=methods.Travels(
        down=('models', 'position'), up=('models', 'position')
    ),
)
def _build(task, hyperparameters):
  parts, names, assign = heterofl.of_task(task, hyperparameters)
  return build_splitmix(
      parts.of_width(min(parts.widths)), hyperparameters.bases(parts), names,
      assign, task.num_clients, hyperparameters,
      client_weighting=task.client_weighting,
  )
