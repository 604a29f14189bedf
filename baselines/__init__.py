"""Competing methods, one file each; importing this package registers them.

Every module of this folder is found by itself; its functions `build_*` and
classes of hyperparameters are names of the package, e.g.
`baselines.build_fedavg` and `baselines.FedAvgHyperparameters`.
"""

from tff_pers import discovery

globals().update(
    discovery.builders(discovery.import_modules(__name__, __path__))
)
