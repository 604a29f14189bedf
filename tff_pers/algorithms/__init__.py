"""The method families; importing this package registers them.

Every module of this folder is found by itself; its functions `build_*` and
classes of hyperparameters are names of the package, e.g.
`algorithms.build_perm` and `algorithms.PermHyperparameters`.
"""

from tff_pers import discovery

globals().update(
    discovery.builders(discovery.import_modules(__name__, __path__))
)
