"""Personalized federated learning on TensorFlow Federated.

    import tff_pers

    model = tff_pers.from_keras(keras_model, loss)
    process = tff_pers.build_perm(model, num_clients=5)
    data = [tff_pers.dense(i, x, y) for i, (x, y) in enumerate(clients)]
    tff_pers.runtime.use('fused')
    output = process.next(process.initialize(), [()] * 5, data)

Names in `__all__` are imported on first use: TensorFlow takes seconds to
import, `import tff_pers` no time. Import everything else from the module that
defines it, e.g. `from tff_pers.aggregators import shuffling`.
"""

import importlib
import time
from typing import TYPE_CHECKING

from tff_pers import moved  # Old paths work.

__version__ = '0.1.0'

# Seconds since the epoch when the first of our modules was imported.
_imported = time.time()

# Public names by the module that defines or exports them.
_NAMES = {
    'tff_pers.algorithms': (
        'build_fedhm', 'build_ffgg', 'build_floral', 'build_local_ffgg',
        'build_local_update', 'build_perm', 'build_shuffling',
        'AsyncFFGGHyperparameters', 'FedHMHyperparameters',
        'FFGGHyperparameters', 'FloralHyperparameters',
        'LocalFFGGHyperparameters', 'PermHyperparameters',
        'ShufflingHyperparameters',
    ),
    'tff_pers.composition': ('compose',),
    'tff_pers.core.process': ('PersonalizedProcess',),
    'tff_pers.data.client_data': ('dense',),
    'tff_pers.data.sources': ('from_client_data',),
    'tff_pers.models': (
        'FunctionalModel', 'from_keras', 'from_tff_functional_model',
        'to_tff_functional_model',
    ),
    'tff_pers.models.export': ('export_saved_model', 'merge_into'),
    'tff_pers.simulation.learning_process': ('from_personalized',),
    'tff_pers.simulation.program': ('TrainingProgram',),
    'tff_pers.simulation.store': ('ClientStateStore',),
}
_PACKAGES = (
    'aggregators', 'algorithms', 'attacks', 'client_works', 'data', 'models',
    'numerics', 'plugins', 'runtime', 'simulation',
)
_MODULE_OF = {name: module for module, own in _NAMES.items() for name in own}

__all__ = ('__version__', *sorted([*_MODULE_OF, *_PACKAGES]))


if TYPE_CHECKING:
  # For type checkers and editors, which do not run `__getattr__`: all names of
  # `__all__`. `tests/package_test.py` compares both.
  # pylint: disable=useless-import-alias
  from tff_pers import aggregators as aggregators
  from tff_pers import algorithms as algorithms
  from tff_pers import attacks as attacks
  from tff_pers import client_works as client_works
  from tff_pers import data as data
  from tff_pers import models as models
  from tff_pers import numerics as numerics
  from tff_pers import plugins as plugins
  from tff_pers import runtime as runtime
  from tff_pers import simulation as simulation
  from tff_pers.algorithms import (
      AsyncFFGGHyperparameters as AsyncFFGGHyperparameters,
  )
  from tff_pers.algorithms import build_fedhm as build_fedhm
  from tff_pers.algorithms import build_ffgg as build_ffgg
  from tff_pers.algorithms import build_floral as build_floral
  from tff_pers.algorithms import build_local_ffgg as build_local_ffgg
  from tff_pers.algorithms import build_local_update as build_local_update
  from tff_pers.algorithms import build_perm as build_perm
  from tff_pers.algorithms import build_shuffling as build_shuffling
  from tff_pers.algorithms import FedHMHyperparameters as FedHMHyperparameters
  from tff_pers.algorithms import FFGGHyperparameters as FFGGHyperparameters
  from tff_pers.algorithms import FloralHyperparameters as FloralHyperparameters
  from tff_pers.algorithms import (
      LocalFFGGHyperparameters as LocalFFGGHyperparameters,
  )
  from tff_pers.algorithms import PermHyperparameters as PermHyperparameters
  from tff_pers.algorithms import (
      ShufflingHyperparameters as ShufflingHyperparameters,
  )
  from tff_pers.composition import compose as compose
  from tff_pers.core.process import PersonalizedProcess as PersonalizedProcess
  from tff_pers.data.client_data import dense as dense
  from tff_pers.data.sources import from_client_data as from_client_data
  from tff_pers.models import from_keras as from_keras
  from tff_pers.models import (
      from_tff_functional_model as from_tff_functional_model,
  )
  from tff_pers.models import FunctionalModel as FunctionalModel
  from tff_pers.models import to_tff_functional_model as to_tff_functional_model
  from tff_pers.models.export import export_saved_model as export_saved_model
  from tff_pers.models.export import merge_into as merge_into
  from tff_pers.simulation.learning_process import (
      from_personalized as from_personalized,
  )
  from tff_pers.simulation.program import TrainingProgram as TrainingProgram
  from tff_pers.simulation.store import ClientStateStore as ClientStateStore
else:

  def __getattr__(name: str):
    """Imports a public name when it is first used (PEP 562)."""
    if name in _PACKAGES:
      return importlib.import_module(f'{__name__}.{name}')
    if name in _MODULE_OF:
      found = getattr(importlib.import_module(_MODULE_OF[name]), name)
      globals()[name] = found
      return found
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__():
  return sorted({*globals(), *__all__})
