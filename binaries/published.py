"""Numbers that papers published, to be shown beside ours.

They are copied from the papers; nothing is computed from them.
"""

from typing import Mapping, NamedTuple, Optional

from tff_pers.data import brackets


# How clients train in FedHM's experiments, papers/fedhm.md 5.1.
FEDHM_TRAINING = dict(
    local_epochs=10, local_steps=0, batch_size=64, momentum=0.9,
    weight_decay=1e-4, learning_rate_schedule='steps',
    learning_rate_rounds='100:150',
)
# What the numbers of a paper are, in words.
MEASURES = {
    'clients': 'means over clients',
    'examples': 'means over the test examples of all clients',
    'largest': 'accuracies of the largest model on common test data',
}


class Published(NamedTuple):
  """Results of a paper on the task of a comparison.

  Attributes:
    source: Paper and table.
    accuracy: Test accuracy, in [0, 1], by the variant that stands for the
      method here.
    setting: The paper's setting.
    reduced: How ours differs, by value of `--scale`; '': it is equal.
    measure: What the paper's accuracy is: a key of `MEASURES`.
    pipeline: Options of a variant that are a part of the setting, not of the
      method.
  """

  source: str
  accuracy: Mapping[str, float]
  setting: str
  reduced: Mapping[str, str]
  measure: str = 'clients'
  pipeline: tuple[str, ...] = ('pretrain_rounds',)

  def of(self, variant: str) -> Optional[float]:
    """Returns the paper's accuracy of a variant, None: it has none."""
    name, options = brackets.parse(variant)
    for option in self.pipeline:
      options.pop(option, None)
    for known, accuracy in self.accuracy.items():
      if brackets.parse(known) == (name, options):
        return accuracy
    return None


def _percent(values: Mapping[str, float]) -> dict[str, float]:
  return {name: round(value / 100, 4) for name, value in values.items()}


_FLORAL = (
    'Collaborative and Efficient Personalization with Mixtures of Adaptors'
    ' (Almansoori, Horvath, Takac, 2024), Table 1'
)
_FFGG = (
    'Partially Personalized Federated Learning: Breaking the Curse of Data'
    ' Heterogeneity, Table 1'
)
_FEDHM = (
    'FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank'
    ' Factorization, Table 3 (fixed tiers, non-IID, the largest model)'
)
_SMOKE = 'a few clients, two rounds: no number means anything'


def _floral(column: int) -> dict[str, float]:
  """Returns a column of Table 1 by variant."""
  rows = {
      'fedavg': (91.5, 25.8, 78.2, 23.2, 64.4, 21.9, 45.6, 18.7, 29.2, 20.7),
      'local_adaptor': (
          86.6, 84.5, 47.4, 32.0, 66.3, 68.8, 33.5, 30.8, 85.1, 39.5
      ),
      'ensemble': (92.0, 93.8, 66.7, 86.4, 71.0, 46.4, 42.4, 41.7, 86.2, 43.7),
      'ensemble[router=oracle]': (
          95.8, 95.6, 88.2, 87.6, 73.7, 73.3, 45.0, 45.1, 92.8, 55.0
      ),
      # The paper's step of the router is this variant.
      'floral[router_step=gradient]': (
          91.3, 89.7, 73.1, 46.0, 65.5, 62.8, 45.2, 44.2, 81.3, 52.2
      ),
      'floral[router=oracle]': (
          93.9, 93.7, 87.5, 87.6, 68.9, 72.2, 47.8, 44.1, 82.4, 53.1
      ),
      'floral[budget=0.1,router_step=gradient]': (
          91.8, 93.1, 75.7, 70.8, 65.1, 56.2, 44.5, 42.1, 87.3, 51.2
      ),
      'floral[budget=0.1,router=oracle]': (
          94.5, 94.2, 87.0, 86.9, 69.3, 72.1, 47.2, 42.7, 86.6, 53.9
      ),
  }
  return _percent({name: row[column] for name, row in rows.items()})


def _floral_cifar(column: int, setting: str, cpu: str) -> Published:
  return Published(
      _FLORAL, _floral(column), setting,
      {'cpu': cpu, 'smoke': _SMOKE,
       'paper': 'a fifth of the training images is held out; rates of a grid,'
              ' plain averaging; flips and crops come after a rotation'},
  )


EMNIST = Published(
    _FFGG,
    {
        'fedavg': 0.9318, 'local_ffgg[split=input_layer]': 0.9360,
        'local_ffgg[split=output_layer]': 0.9358,
        'local_ffgg[split=adapter]': 0.9426,
    },
    'ResNet-18, 1114 writers, 2000 rounds and 500 more',
    {
        'cpu': 'one hidden layer, 100 writers of a sample, 120 rounds, adapters'
               ' of low rank',
        'smoke': _SMOKE,
        'paper': 'a fifth of the training images and 50 writers are held out;'
                 ' one rate, of a grid, for both stages; adapters of low rank',
    },
    measure='examples',
)
STACKOVERFLOW = Published(
    _FFGG,
    {
        'fedavg': 0.2382, 'local_ffgg[split=input_layer]': 0.2411,
        'local_ffgg[split=output_layer]': 0.2492,
        'local_ffgg[split=adapter:norm]': 0.2480,
    },
    'a transformer of 4 blocks, 1000 clients of 342,477, 1000 rounds and 500'
    ' more, FedAdam',
    {
        'cpu': 'another model, 100 users with few posts, fewer rounds, plain'
               ' averaging',
        'smoke': _SMOKE,
        'paper': 'a fifth of the training posts is held out; one rate, of a'
                 ' grid, and one schedule for both stages; FedAvg averages'
                 ' plainly',
    },
    measure='examples',
    pipeline=(
        'pretrain_rounds', 'pretrain_server_learning_rate', 'batch_size',
        'clip_norm', 'server_optimizer', 'server_learning_rate',
        'learning_rate_schedule', 'learning_rate_rounds',
    ),
)
_REDUCED = '20 clients in 4 clusters, a CNN, 5 % of the images, 1500 rounds'
_NOT_ALL = (
    'a tenth of the rounds, no flips and crops, a fifth of the training images'
    ' is held out'
)
CIFAR10_SHIFTED = _floral_cifar(7, _REDUCED, _NOT_ALL)
CIFAR10_ROTATED = _floral_cifar(6, _REDUCED, _NOT_ALL)
CIFAR100_GROUPS = _floral_cifar(
    8, '100 clients in 10 groups of classes, VGG-8, all images',
    'another CNN, 10 clients in a round, a tenth of the images, 60 rounds',
)
CIFAR10_TIERS = Published(
    _FEDHM,
    _percent(dict(fedhm=91.22, heterofl=84.49, splitmix=85.91)),
    'ResNet-18, 20 clients, 160 rounds of 10 epochs, all images',
    {
        'cpu': 'a CNN, a fifth of the images, 30 rounds of 20 steps, without'
               ' momentum',
        'smoke': _SMOKE,
        'paper': 'a fifth of the training images is held out; the rate is of a'
                 ' grid; other draws of the clients; the last round counts,'
                 ' theirs the best',
    },
    measure='largest',
    # Variants of the table of tiers have the rate that was chosen.
    pipeline=('learning_rate',),
)
# The paper's sizes of clusters and kernels are CIFAR-10's; ours are named.
_ABLATION = (
    'CIFAR-10 with shifted labels, four clusters, a CNN, 1500 rounds, one seed'
)


def _ablation(table: int, accuracy: Mapping[str, float], cpu: str) -> Published:
  source = _FLORAL.replace('Table 1', f'Table {table}')
  return Published(source, accuracy, _ABLATION, {'cpu': cpu, 'paper': cpu})


FLORAL_ADAPTORS = _ablation(
    2,
    {
        # Half, as many and twice the adaptors of clusters; 1 % and 10 %.
        **{f'floral[rank=1,num_adaptors={number}]': accuracy
           for number, accuracy in ((2, 0.363), (4, 0.741), (8, 0.738))},
        **{f'floral[rank=4,num_adaptors={number}]': accuracy
           for number, accuracy in ((2, 0.416), (4, 0.742), (8, 0.741))},
    },
    'a generated task; ranks 1 and 4 stand for 1 % and 10 %',
)
FLORAL_FORMS = _ablation(
    4,
    {
        'floral[conv_form=balanced_2d]': 0.741,
        'floral[conv_form=in]': 0.735, 'floral[conv_form=out]': 0.740,
    },
    'MNIST with shifted labels, another CNN, 5 % of the images',
)
FLORAL_BIASES = _ablation(
    5, {'floral': 0.741, 'floral[adapt_bias=false]': 0.733},
    'MNIST with shifted labels, another CNN, 5 % of the images',
)
