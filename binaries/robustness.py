"""Tabulates robust rules against attacks, with a heat map.

    python -m binaries.robustness --algo=A --rules=R,S --attacks=T,U
        --num_byzantine=N --seeds=0,1 [--flag=value ...]

Trains a method with every rule in place of its mean, under every attack, with
every seed; all clients take part in every round. On overpersonalized and
overpersonalized_control the N Byzantine clients are added; on other tasks they
are N of the clients, drawn by the seed. After the last round, measures the
distance to the optimum (if it is known) or the accuracy over honest clients. A
diverged cell shows its value: a large number, inf or nan. Writes
robustness.csv, robustness.md and the heat map robustness to --output_dir. Rerun
the same command to resume: existing cells are not run again, and rules, attacks
and seeds may be added.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. 2023 (Algorithm 5).
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers import attacks
from tff_pers.experiments import flags
from tff_pers.experiments import robustness_table

main = flags.Program(
    'robustness', __doc__, robustness_table.run,
    flags.own_flag('algo', 'ffgg', 'The method.'),
    flags.own_flag('task', 'overpersonalized', 'Task, see above.'),
    flags.own_flag(
        'rules', robustness_table.RULES,
        'Rules: mean, or one of --<algo>_aggregator, also inside'
        ' bucketing(NAME) or nnm(NAME).',
    ),
    lambda: flags.own_flag(
        'attacks', 'none,sign_flip,ipm,alie,noise,mimic',
        f'Attacks: {", ".join(attacks.names())}; brackets set options.',
    ),
    flags.own_flag(
        'num_byzantine', 5, 'Number of Byzantine clients.', minimum=1
    ),
    flags.own_flag('seeds', '0', 'Seeds, such as 0,1,2.'),
    without=(
        'seed', 'attack', 'holdout_clients', 'resume', 'clients_per_round',
        'validation_fraction', 'on_non_finite', 'finetune_steps',
        'finetune_learning_rate', 'patience', 'max_rounds',
    ),
    resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
