"""Colour images: clusters, classes of a hierarchy, devices of other capacity.

    python -m binaries.benchmark_cifar --data_dir=DATA

Collaborative and Efficient Personalization with Mixtures of Adaptors
    Abdulla Jasem Almansoori, Samuel Horvath, Martin Takac. 2024. Table 1.
FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization (papers/fedhm.md 5.4: Table 3).
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from binaries import published
from binaries import real_data
from binaries import tuned_parts

SUMMARY = """\
python -m binaries.benchmark_cifar --data_dir=DIR [--scale=cpu]
    [--parts=shifted,...] [--algos=all] [--flag=value]

Comparisons on CIFAR, each with compare_tuned in a folder of its own: every
method has the step size that validation data choose from one grid.

  shifted, rotated   CIFAR-10: clusters that give the classes other names, or
                     turn the images; FLoRAL's Table 1.
  groups             CIFAR-100: ten groups of classes; the same table.
  pachinko           CIFAR-100: classes by a hierarchy, as in TFF.
  tiers              CIFAR-10: devices of other capacity; FedHM's Table 3.

DIR holds the files of both data sets, or the subsets of .npz files. The scale
smoke takes a minute, cpu one to two hours per part on two cores; paper has
sizes near the papers', with flips and crops. Every other flag is one of
compare_tuned and goes before the scale's. The same command resumes. Writes
cifar.md beside the folders."""

_CLUSTERED = (
    'fedavg,local_adaptor,ensemble,ensemble[router=oracle],floral,'
    'floral[router_step=gradient],floral[router=oracle],floral[budget=0.1],perm'
)
_TIERED = 'fedhm,heterofl,splitmix,fedrolex,fjord'
_AUGMENTED = {
    'cifar10': dict(cifar10_augment='flip_crop'),
    'cifar100': dict(cifar100_augment='flip_crop'),
}
_LONG = {
    task: dict(flags, rounds=1500, eval_every=500)
    for task, flags in _AUGMENTED.items()
}
# Adaptive Federated Optimization (Reddi et al., 2021), as TFF's task has it.
_REDDI = dict(
    model='resnet18', cifar100_augment='crop24', num_clients=500,
    clients_per_round=10, rounds=4000, eval_every=1000,
)
# A fifth of the images of CIFAR-10 are in the subset.
_FEW = dict(rounds=150, eval_every=150, train_fraction=0.25)
_CIFAR100 = dict(model='cifar_cnn', rounds=60, eval_every=60)
_TASKS = dict(
    shifted='cifar10', rotated='cifar10', tiers='cifar10', groups='cifar100',
    pachinko='cifar100',
)
BENCHMARK = tuned_parts.Benchmark(
    name='benchmark_cifar',
    summary=SUMMARY,
    title='Colour images',
    note=(
        'Means over clients of test accuracies and over seeds, ± the standard'
        ' deviation over seeds. A step size is chosen for each method by the'
        ' mean accuracy over clients on validation data of the first seed.'
    ),
    parts={
        'shifted': real_data.part(
            'cifar10', partition='label_shift_clusters', algos=_CLUSTERED
        ),
        'rotated': real_data.part(
            'cifar10', partition='rotated_clusters', algos=_CLUSTERED
        ),
        'groups': real_data.part(
            'cifar100', partition='class_groups', algos=_CLUSTERED
        ),
        'pachinko': real_data.part('cifar100', partition='pachinko'),
        'tiers': real_data.part(
            'cifar10', partition='dirichlet[alpha=0.5,min=20]',
            tier_assignment='fixed', client_weighting='uniform', algos=_TIERED,
        ),
    },
    titles={
        'shifted': 'CIFAR-10, clusters with other names of the classes',
        'rotated': 'CIFAR-10, clusters with turned images',
        'groups': 'CIFAR-100, groups of classes',
        'pachinko': 'CIFAR-100, classes by a hierarchy',
        'tiers': 'CIFAR-10, devices of other capacity',
    },
    scales=real_data.SCALES,
    sizes={
        'cpu/shifted': _FEW,
        'cpu/rotated': _FEW,
        'cpu/groups': dict(_CIFAR100, num_clients=100, clients_per_round=10),
        'cpu/pachinko': dict(_CIFAR100, num_clients=50, clients_per_round=10),
        'cpu/tiers': dict(
            num_clients=20, clients_per_round=10, rounds=30, eval_every=30,
        ),
        **{
            f'smoke/{part}': real_data.smoke(
                task, algos='fedhm' if part == 'tiers' else 'fedavg,floral',
                model='mlp_small', train_fraction=0.1, num_clients=10,
                clients_per_round=4,
            )
            for part, task in _TASKS.items()
        },
        # Clusters as in Table 1, reduced.
        'paper/shifted': dict(_LONG['cifar10'], train_fraction=0.05),
        'paper/rotated': dict(_LONG['cifar10'], train_fraction=0.05),
        'paper/groups': _LONG['cifar100'],
        'paper/pachinko': _REDDI,
        'paper/tiers': dict(
            _AUGMENTED['cifar10'], model='resnet18', rounds=160, eval_every=160,
            num_clients=20, clients_per_round=10,
            **tuned_parts.for_methods(
                _TIERED.split(','), **published.FEDHM_TRAINING
            ),
        ),
    },
    published={
        'shifted': published.CIFAR10_SHIFTED,
        'rotated': published.CIFAR10_ROTATED,
        'groups': published.CIFAR100_GROUPS,
        'tiers': published.CIFAR10_TIERS,
    },
    file='cifar.md',
    chooses_algos=True,
)


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return tuned_parts.main(BENCHMARK, argv)


if __name__ == '__main__':
  run()
