"""Compares a local step of each FedHM tier to one of the full model.

Measures ResNet-18 on 32x32 images at the ratios 1, 1/2, 1/4, 1/8, and an MLP at
1, 1/4, 1/8, 1/16. Also measures the server's decompositions per round, relative
to a round of 10 clients of these tiers with 2,500 examples each, 1 epoch,
batches of 64 (measured steps times their number). One process measures all
calls in turn, so that machine load affects all alike. CPU seconds sum over
threads, medians over turns; a ratio is the median of those within a turn.

  python -m binaries.benchmark_tiers --repetitions=5
"""

from absl import app
from absl import flags

from binaries.speed import harness
from binaries.speed import tiers
from tff_pers.models import macs

_REPETITIONS = flags.DEFINE_integer(
    'repetitions', 5, 'Number of measured turns.', lower_bound=1
)
_MODELS = flags.DEFINE_list(
    'models', ['resnet18', 'mlp'], 'Models to measure.'
)


def main() -> None:
  for name in _MODELS.value:
    if name not in tiers.SETTINGS:
      raise app.UsageError(
          f'`--models` must be of {", ".join(tiers.SETTINGS)}, found {name!r}.'
      )
  harness.print_header(
      'model', 'ratio', 'parameters', 'MACs of an example', 'CPU ms of a step',
      'parameters vs 1', 'MACs vs 1', 'CPU vs 1',
  )
  for name in _MODELS.value:
    tiered, num_steps, calls = tiers.build(name)
    costs = harness.in_turn(calls, _REPETITIONS.value)
    full = tiered.tiers[0]
    for tier, ratio in zip(tiered.tiers, tiered.ratios):
      own, products = costs[ratio], macs.total(tier.model)
      against = harness.median_ratio(own, costs[tiered.ratios[0]]).cpu
      harness.print_row(
          name, f'{ratio:g}', tier.num_parameters, products,
          f'{1000 * harness.median(own).cpu / num_steps:.3g}',
          f'{tier.num_parameters / full.num_parameters:.3f}',
          f'{products / macs.total(full.model):.3f}', f'{against:.3f}',
      )
    server, clients, share = tiers.of_a_round(
        costs, tiered.ratios, num_steps
    )
    print(
        f'\n{name}: the decompositions of a round take {server:.3g} CPU'
        f' seconds, the steps of {tiers.CLIENTS} clients {clients:.4g}: a share'
        f' of {share:.2%}.\n'
    )


if __name__ == '__main__':
  harness.run(main)
