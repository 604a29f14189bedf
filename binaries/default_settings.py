"""The settings of `benchmark_defaults` and the claims about them."""

import os
from typing import Any, Mapping, NamedTuple, Optional

import numpy as np
from sklearn import datasets


class Claim(NamedTuple):
  """Arguments of `check_orderings.check`."""

  expect: str
  metric: str = 'accuracy'
  in_seeds: int = 0


class Setting(NamedTuple):
  """A comparison with default flags, and claims about its results.

  Attributes:
    flags: Flags of `compare`.
    claims: Claims about accuracies.
    visits: Whether every round of PERM's visits must have at least one, and no
      metric of a round may be NaN.
    new_clients: Largest accuracy by which clients that never trained may be
      below those that did; None: there are no such clients.
  """

  flags: Mapping[str, Any]
  claims: tuple[Claim, ...] = ()
  visits: bool = False
  new_clients: Optional[float] = None


# These seeds were not used to find the defaults.
SEEDS = '3,4,5'
_TEN = ','.join(map(str, range(10, 20)))
# Tables that `write_tumours` makes.
TUMOURS, TUMOURS_BY_SIZE = 'tumours.npz', 'tumours_by_size.npz'


def _perm(
    above_local: float = -0.015, below_fedavg: float = 0.015, **flags: Any
) -> Setting:
  return Setting(
      dict(algos='perm,local_only,fedavg', seeds=SEEDS, eval_every=1, **flags),
      (Claim(
          f'local_only{above_local:+}<=perm,fedavg-{below_fedavg}<=perm'
      ),), visits=True,
  )


def _floral(
    algos: str, expect: str, in_seeds: int = 0, **flags: Any
) -> Setting:
  return Setting(
      dict(algos=algos, **{'seeds': SEEDS, **flags}),
      (Claim(expect, in_seeds=in_seeds),),
  )


_MNIST: dict[str, Any] = dict(
    task='mnist', partition='label_shift_clusters', train_fraction=0.05,
    eval_every=500,
)
_CIFAR: dict[str, Any] = dict(
    task='cifar10', partition='label_shift_clusters', model='mlp_200',
    num_clients=20, rounds=50, eval_every=25,
)
# Settings that need files come first, so that missing files show early.
_OF_FILES: dict[str, Setting] = {
    'femnist': _perm(
        task='emnist', num_clients=30, clients_per_round=10,
        model='logistic_regression', rounds=100,
    ),
    'floral_cifar10': _floral(
        'floral,local_adaptor', 'local_adaptor<floral', **_CIFAR
    ),
    'floral_mnist': _floral(
        'floral,local_adaptor', '0.6<=floral,local_adaptor+0.15<=floral',
        **_MNIST,
    ),
}
_EMBEDDED: dict[str, Setting] = {
    'label_shift': _perm(0.1, partition='label_shift_clusters'),
    'label_shift_raw': _perm(
        0.06, partition='label_shift_clusters', digits_center='none'
    ),
    'rotated': _perm(partition='rotated_clusters[order=blocks]'),
    'rotated_raw': _perm(
        partition='rotated_clusters[order=blocks]', digits_center='none'
    ),
    'shards': _perm(partition='shards[classes=2]'),
    'shards_raw': _perm(partition='shards[classes=2]', digits_center='none'),
    'dirichlet': _perm(partition='dirichlet[alpha=0.5]'),
    'dirichlet_raw': _perm(
        below_fedavg=0.03, partition='dirichlet[alpha=0.5]',
        digits_center='none',
    ),
    'iid': _perm(partition='iid'),
    'iid_raw': _perm(partition='iid', digits_center='none'),
    'synthetic_groups': _perm(0.02, task='synthetic_groups'),
    'tumours': _perm(task='npz', data_dir=TUMOURS),
    'tumours_by_size': _perm(task='npz', data_dir=TUMOURS_BY_SIZE),
    'new_clients': Setting(
        dict(algos='perm', seeds=_TEN, holdout_clients=5, eval_every=1),
        visits=True, new_clients=0.03,
    ),
    'many_clients': Setting(
        dict(
            task='synthetic_groups', num_clients=1000, clients_per_round=100,
            rounds=300, eval_every=100, algos='perm,oracle_groups', seeds=SEEDS,
        ),
        (
            Claim('oracle_groups-0.02<=perm'),
            Claim('0.95<=perm', metric='cluster_accuracy'),
        ),
    ),
    'floral_label_shift': _floral(
        'floral', '0.8<=floral', in_seeds=10, task='floral_label_shift',
        rounds=200, eval_every=100, seeds=_TEN,
    ),
}
SETTINGS: dict[str, Setting] = {**_OF_FILES, **_EMBEDDED}


def needs_files(name: str) -> bool:
  """Whether a setting's data are in `--data_dir`."""
  return name in _OF_FILES


def write_tumours(folder: str) -> None:
  """Writes two tables of tumours with 10 clients each.

  In the first, every second client has swapped labels; in the second, each
  client has a tenth of the tumours, sorted by size.

  Args:
    folder: Where `TUMOURS` and `TUMOURS_BY_SIZE` are made.
  """
  x, y = datasets.load_breast_cancer(return_X_y=True)
  x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
  client = np.random.default_rng(0).integers(10, size=len(y))
  swapped = np.where(client % 2, 1 - y, y)
  tenth = np.argsort(np.argsort(x[:, 0])) * 10 // len(y)
  os.makedirs(folder, exist_ok=True)
  np.savez(os.path.join(folder, TUMOURS), x=x, y=swapped, client=client)
  np.savez(os.path.join(folder, TUMOURS_BY_SIZE), x=x, y=y, client=tenth)
