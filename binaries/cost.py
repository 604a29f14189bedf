"""Reports what methods cost on a model, or what runs cost to an accuracy.

    python -m binaries.cost [--algos=A,B,...] [--model=NAME] [--num_classes=C]
    python -m binaries.cost --runs=DIR[,DIR...] --accuracy=A

The first form prints, and writes to cost.csv, the parameters and the
multiply-accumulates (MACs, one example, forward) of the model that a client
deploys, and the bytes that a client receives and sends in a round after all
warm-ups: one row per method, or per tier if devices differ in capacity. It
trains nothing and reads no data.
The second form prints, and writes to cost_to_accuracy.csv, the rounds, bytes
and MACs that finished runs needed until their mean test accuracy was at least A
at an evaluated round, for a client that takes part in all rounds, and per tier
if there are tiers; kept_from is the first evaluated round from which on the
accuracy stayed at least A.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import dataclasses
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import method_costs
from tff_pers.models import zoo

main = flags.Program(
    'cost', __doc__, method_costs.run,
    flags.own_flag('algo', '', 'One method or variant.'),
    flags.own_flag(
        'algos', method_costs.ALL,
        'Methods or variants, such as fedavg,fedhm[tiers=1:0.5]; or all.'
    ),
    flags.own_flag('model', 'resnet18', 'Model.', choices=zoo.names()),
    flags.own_flag(
        'num_classes', 10, 'Number of labels; 0: regression.', minimum=0
    ),
    flags.own_flag(
        'input_shape', '32x32x3', 'Shape of an example: 28x28x1 or 60.'
    ),
    flags.own_flag(
        'width', 1.0, 'Factor on the numbers of channels.',
        above=0.0, maximum=1.0,
    ),
    flags.own_flag(
        'layers', False, 'Also parameters and MACs by layer, in layers.csv.'
    ),
    flags.own_flag('runs', '', 'Folders of runs or comparisons.'),
    flags.own_flag(
        'accuracy', 0.0, 'Mean test accuracy to reach, with --runs.',
        minimum=0.0, maximum=1.0,
    ),
    without=[
        field.name for field in dataclasses.fields(flags.SharedFlags)
        if field.name not in ('client_weighting', 'output_dir')
    ],
    fills=('model', 'num_classes', 'input_shape', 'width'),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
