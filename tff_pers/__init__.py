"""Personalized federated learning on TensorFlow Federated.

    import tff_pers

    model = tff_pers.from_keras(keras_model, loss)
    process = tff_pers.build_perm(model, num_clients=5)
    data = [tff_pers.dense(i, x, y) for i, (x, y) in enumerate(clients)]
    tff_pers.runtime.use('fused')
    output = process.next(process.initialize(), [()] * 5, data)

What is listed in `__all__` is imported when it is first used: TensorFlow takes
seconds, and `import tff_pers` nothing. Everything else is found where it is
defined, as `from tff_pers.aggregators import shuffling`.
"""

import importlib

__version__ = '0.1.0'

# Public names by the module that defines or exports them.
_NAMES = {
    'tff_pers.algorithms': (
        'build_async_ffgg', 'build_fedhm', 'build_ffgg', 'build_floral',
        'build_local_ffgg', 'build_local_update', 'build_perm',
        'build_shuffling', 'AsyncFFGGHyperparameters', 'FedHMHyperparameters',
        'FFGGHyperparameters', 'FloralHyperparameters',
        'LocalFFGGHyperparameters', 'PermHyperparameters',
        'ShufflingHyperparameters',
    ),
    'tff_pers.composition': ('compose',),
    'tff_pers.data.client_data': ('dense',),
    'tff_pers.data.sources': ('from_client_data',),
    'tff_pers.models': (
        'FunctionalModel', 'from_keras', 'from_tff_functional_model',
        'to_tff_functional_model',
    ),
    'tff_pers.models.export': ('export_saved_model', 'merge_into'),
    'tff_pers.process': ('PersonalizedProcess',),
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
