"""Modules that have moved: their old paths work for one release, and say so."""

import importlib
import importlib.abc
import importlib.util
import sys
import warnings

# New folders, with modules that were in `tff_pers` or `tff_pers.algorithms`.
_CORE = 'arrays inputs interception locks process random round_metrics'
_CONFIG = (
    'cadence conditions discovery entry_points hyperparameters methods'
    ' registry search_spaces settings traits'
)
_COMPOSITION = (
    'builders deployment dispatch finetuning own_messages round_steps'
    ' server_optimizers server_state'
)
_PERM = (
    'fingerprints perm_client perm_clusters perm_devices perm_hyperparameters'
    ' perm_lambda perm_mixing perm_new_clients perm_server'
    ' visit_schedule visits'
)
_MOVED = {
    f'tff_pers{old}.{name}': f'tff_pers.{room}.{name}'
    for old, room, names in (
        ('', 'core', _CORE),
        ('', 'config', _CONFIG),
        ('', 'composition', _COMPOSITION),
        ('.evaluation', 'core', 'files'),
        ('.analysis', 'numerics', 'thetas'),
        ('.algorithms', 'algorithms.perm', _PERM),
        (
            '.algorithms', 'algorithms.floral',
            'floral_hyperparameters floral_routers',
        ),
        (
            '.algorithms', 'algorithms.ffgg',
            'ffgg_hyperparameters ffgg_private ffgg_stages local_ffgg',
        ),
        ('.algorithms', 'algorithms.fedhm', 'fedhm_hyperparameters'),
        (
            '.algorithms', 'algorithms.local_update',
            'local_update_hyperparameters',
        ),
    )
    for name in names.split()
} | {
    f'tff_pers.algorithms.{old}': f'tff_pers.algorithms.perm.{new}'
    for old, new in (
        ('perm_aggregator', 'perm_server'),
        ('perm_architectures', 'perm_devices'),
        ('perm_comparison', 'perm_devices'),
        ('perm_trial', 'perm_lambda'),
        ('visit_hyperparameters', 'visit_schedule'),
        ('shuffling', 'fixed_mixing'), ('perm.shuffling', 'fixed_mixing'),
    )
} | {
    'tff_pers.algorithms.mixing_rows': 'tff_pers.numerics.mixing_rows',
    'tff_pers.algorithms.async_ffgg': 'tff_pers.algorithms.ffgg.ffgg',
    'tff_pers.algorithms.ffgg.async_ffgg': 'tff_pers.algorithms.ffgg.ffgg',
    'tff_pers.ranges': 'tff_pers.config.hyperparameters',
    'tff_pers.data.growing': 'tff_pers.data.column_builders',
    'tff_pers.experiments.benchmark_pages':
        'tff_pers.experiments.benchmark_runs',
    'tff_pers.experiments.default_tables':
        'tff_pers.experiments.default_claims',
    'tff_pers.experiments.later_clients': 'tff_pers.experiments.reload_run',
    'tff_pers.experiments.pareto_task': 'tff_pers.experiments.pareto',
    'tff_pers.experiments.side_by_side': 'tff_pers.experiments.worker_pool',
    'tff_pers.experiments.study_locks': 'tff_pers.experiments.studies',
    'tff_pers.experiments.trial_runs': 'tff_pers.experiments.variant_search',
    'baselines.fedper': 'baselines.fedsim',
    'baselines.fedsgd': 'baselines.presets',
    'baselines.lookahead': 'baselines.presets',
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """Imports a module of an old path from its new one."""

  def find_spec(self, fullname, path=None, target=None):
    if fullname in _MOVED:
      return importlib.util.spec_from_loader(fullname, self)
    return None

  def create_module(self, spec):
    new = _MOVED[spec.name]
    # Points at the import. Users of programs see a FutureWarning, too.
    warnings.warn(
        f'{spec.name} is now {new}; the next release will not find the old'
        ' path.', FutureWarning, stacklevel=2,
    )
    module = importlib.import_module(new)
    spec.loader_state = module.__spec__
    return module

  def exec_module(self, module):
    # The module has run; only restore what this import has changed.
    module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, _Finder())
