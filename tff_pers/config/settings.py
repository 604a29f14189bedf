"""Default hyperparameters of methods on tasks.

They override the defaults of a method's dataclass; flags override them. The
reasons are documented with the tasks, in `tff_pers/data/tasks`.
"""

from typing import Any, Iterable, Mapping, Sequence

# By method, then by hyperparameter.
_Settings = Mapping[str, Mapping[str, Any]]

# By method, its own names for the numbers of local SGD. With those of a task
# `local_update` is FedAvg by default; a task of epochs says nothing of K.
_OWN_NAMES = {
    'local_update': dict(
        gamma='learning_rate', eta='learning_rate', num_steps='local_steps'
    ),
}
_EPOCH = dict(local_steps=0, local_epochs=1)
_STEPS = dict(local_epochs=0)
# FLoRAL, section 5: one epoch per round, on clusters of images; the "reduced"
# data have another step size of the router (papers/floral.md 5.2). Its tasks
# have its ranks.
_IMAGES = dict(_EPOCH, router_learning_rate=0.1, min_rank=1)
_REDUCED = {'': dict(router_learning_rate=0.3)}
# All rows in one batch: gradients are exact. The step sizes are below 1 / L_f,
# which is 1 / 4 and 1 / 86 (papers/partial_personalization.md 5.1, 8).
_TINY_SYSTEMS: _Settings = {
    '': dict(_STEPS, batch_size=0, local_steps=10, learning_rate=0.2),
    # gamma_w below 1 / lambda_max(B'B), gamma_theta below 1 / L.
    'ffgg': dict(
        learning_rate=0.45, local_steps=40, server_learning_rate=0.24,
        adapt_epochs=40,
    ),
    # The theory of delays assumes exact solutions.
    'async_ffgg': dict(tuner='exact'),
    'local_ffgg': dict(
        private_learning_rate=0.45, private_steps=40, private_epochs=0,
        adapt_epochs=40,
    ),
    # The step size of a visit is multiplied by up to the number of clients.
    'perm': dict(learning_rate=0.01),
    'pfedme': dict(lam=1.0, inner_lr=0.2),
}
_PAPER_SYSTEMS = {
    '': dict(learning_rate=0.01),
    'ffgg': dict(
        learning_rate=0.019, local_steps=100, server_learning_rate=0.038,
        adapt_epochs=100,
    ),
    'local_ffgg': dict(
        private_learning_rate=0.019, private_steps=100, adapt_epochs=100
    ),
    'perm': dict(learning_rate=3e-4),
    'pfedme': dict(inner_lr=0.01),
}
_CIFAR: _Settings = {
    '': dict(_IMAGES, batch_size=64, learning_rate=0.03),
}
_MNIST_CLUSTERS = {'': dict(_IMAGES, batch_size=32, learning_rate=0.1)}

# By task, then by method; the method '' stands for all methods that have such
# hyperparameters. Names as in flags. A task in a regime (see `Task.regimes`)
# adds the row 'task/regime'.
TABLE: Mapping[str, _Settings] = {
    'cifar10': _CIFAR,
    'cifar10/reduced': _REDUCED,
    'cifar100': _CIFAR,
    'cifar100/reduced': _REDUCED,
    'digits': {
        '': dict(
            _STEPS, batch_size=10, local_steps=10, learning_rate=0.3,
        ),
    },
    'emnist': {  # papers/partial_personalization.md 5.4.
        '': dict(_EPOCH, batch_size=32, learning_rate=0.5),
    },
    'fashion_mnist/clusters': _MNIST_CLUSTERS,
    'fashion_mnist/reduced': _REDUCED,
    'floral_label_shift': {
        '': dict(
            _EPOCH, batch_size=8, learning_rate=0.1, router_learning_rate=0.1,
            min_rank=1,
        ),
    },
    'floral_linear': {
        '': dict(
            _EPOCH, batch_size=4, learning_rate=0.1, router_learning_rate=0.1,
            min_rank=1,
        ),
    },
    'floral_mlp': {
        '': dict(
            _EPOCH, batch_size=8, learning_rate=0.03, router_learning_rate=0.1,
            min_rank=1,
        ),
    },
    'gaussian_modes': {
        # The same for all methods, as in the paper of FedHM.
        '': dict(
            local_steps=0, local_epochs=2, batch_size=32, learning_rate=0.05,
            learning_rate_schedule='steps', learning_rate_rounds='39:54',
            momentum=0.9, weight_decay=1e-4,
        ),
        # It takes a client's displacement per step for a gradient.
        'scaffold': dict(momentum=0.0),
    },
    'low_rank_regression': {
        # Exact gradients; only the ranks keep FedHM from the true map.
        '': dict(_STEPS, batch_size=0, local_steps=5, learning_rate=0.02),
        'fedhm': dict(frobenius_decay=0.0),
    },
    'mnist/clusters': _MNIST_CLUSTERS,
    'mnist/reduced': _REDUCED,
    'overpersonalized': _TINY_SYSTEMS,
    'overpersonalized/paper': _PAPER_SYSTEMS,
    'overpersonalized/tiny': {},
    'overpersonalized_control': _TINY_SYSTEMS,
    'overpersonalized_control/paper': _PAPER_SYSTEMS,
    'overpersonalized_control/tiny': {},
    # A row has 28 features, |x|^2 is about 28: on one row, or on few that are
    # alike, steps of more than 2 / 28 diverge.
    'school': {
        '': dict(learning_rate=0.05),
        'fedsgd': dict(learning_rate=0.0025),  # Multiplied by local_steps = 20.
        'pfedme': dict(inner_lr=0.02),  # Times lam + 28, which is 43.
    },
    # Adaptive Federated Optimization, Table 8: client step sizes of FedAvg.
    'shakespeare': {
        '': dict(_EPOCH, batch_size=4, learning_rate=1.0),
    },
    'stackoverflow_nwp': {
        '': dict(_EPOCH, batch_size=16, learning_rate=0.3),
    },
    'stackoverflow_tags': {
        # The loss is a mean over 500 tags, and x are shares: both make
        # gradients small. FedAvg on 100 users of the sample has a test loss of
        # 0.029 after 40 rounds; a step size of 100 has 0.063 after 100 rounds.
        '': dict(_EPOCH, batch_size=100, learning_rate=1000.0),
    },
    'synthetic_groups': {  # K is the paper's; it leaves the rest open.
        '': dict(
            _STEPS, batch_size=50, local_steps=20, learning_rate=0.5,
        ),
        # Multiplied by local_steps = 20; above 2 / L, about 6, it diverges.
        'fedsgd': dict(learning_rate=0.1),
        'perfedavg': dict(a=1.0, learning_rate=0.1),
        'perm': dict(global_learning_rate=1.0, stage1_rounds=50),
        'pfedme': dict(lam=1.0, inner_lr=0.1),
    },
}


def of(
    task: str, method: str, names: Iterable[str], regimes: Sequence[str] = ()
) -> dict[str, Any]:
  """Returns the values of a method's hyperparameters that suit a task.

  Values for the method override values for all methods; then a later regime
  (see `Task.regimes`) overrides an earlier one. A task without a row has no
  settings. `names` are those of the method's hyperparameters, as in flags.

  Raises:
    ValueError: If a regime has no row.
  """
  rows = [TABLE.get(task, {})]
  for regime in regimes:
    if f'{task}/{regime}' not in TABLE:
      raise ValueError(
          f'`regimes` must have a row in the table of settings, found'
          f' {task}/{regime}, which has none.'
      )
    rows.append(TABLE[f'{task}/{regime}'])
  merged: dict[str, Any] = {}
  for key in ('', method):
    for row in rows:
      merged.update(row.get(key, {}))
  for name, other in _OWN_NAMES.get(method, {}).items():
    if merged.get(other):
      merged.setdefault(name, merged[other])
  return {name: merged[name] for name in names if name in merged}
