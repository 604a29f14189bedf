"""Checks the defaults of PERM and FLoRAL on data they were not tuned on.

    python -m binaries.benchmark_defaults --data_dir=DATA

Runs comparisons and checks claims about their results.
"""

import os
import re
from typing import Any, Sequence

import numpy as np
from sklearn import datasets

from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags
from tff_pers.experiments import orderings
from tff_pers.experiments import sweep

# Stands for all settings that need no files.
_EMBEDDED = 'embedded'
_FILE = benchmarks.read_settings(
    str(benchmarks.FOLDER / 'settings/defaults.yaml')
)
SETTINGS = dict(_FILE.settings)


def _run(given: dict[str, Any]) -> int:
  settings = SETTINGS
  chosen = _chosen(given['settings'], given['data_dir'], settings)
  if given['seeds']:
    settings = {
        name: _on(given['seeds'], setting) for name, setting in settings.items()
    }
  top = flags.output_dir(given, 'benchmark_defaults')
  write_tables(top)
  sections, holds = [], True
  for name in chosen:
    code = _compare(settings[name], given, top, name)
    if code:
      return code
    folder = os.path.join(top, name)
    rows = check(settings[name], folder)
    holds = holds and all(row['holds'] == 'yes' for row in rows)
    sections += [f'## {name}', _summary(folder),
                 results.markdown(orderings.COLUMNS, rows)]
  text = '\n\n'.join(['# Default flags', *sections]) + '\n'
  path = os.path.join(top, 'defaults.md')
  files.write_text(path, text)
  print(f'\n{text}\nThe page is {path}.')
  return int(not holds)


def _chosen(text: str, data_dir: str, settings) -> list[str]:
  """Returns the names of `--settings`; refuses those without their files."""
  embedded = ','.join(name for name in settings if not settings[name].files)
  text = re.sub(rf'\b{_EMBEDDED}\b', embedded, text)
  names = flags.chosen('settings', text, [_EMBEDDED, *settings])
  for name in names:
    if settings[name].files and not data_dir:
      raise flags.UsageError(
          f'`--data_dir` must be the folder with the files of {name}, found'
          f' none. Tip: --settings={_EMBEDDED} are those that need no files.'
      )
  return names


def _on(seeds: str, setting: benchmarks.Setting) -> benchmarks.Setting:
  """Returns the setting on other seeds; claims ask for at most all of them."""
  most = len(seeds.split(','))
  return setting._replace(
      flags=benchmarks.Flags(setting.flags, seeds=seeds), claims=tuple(
          claim._replace(in_seeds=min(claim.in_seeds, most))
          for claim in setting.claims
      ),
  )


def _compare(setting, given, top: str, name: str) -> int:
  """Runs `compare` on a setting; returns an exit code if it wrote no table."""
  folder = os.path.join(top, name)
  own = {**setting.flags, 'jobs': given['jobs'], 'output_dir': folder}
  if setting.files:
    own['data_dir'] = given['data_dir']
  elif 'data_dir' in own:  # A table that this program wrote.
    own['data_dir'] = os.path.join(top, own['data_dir'])
  table = os.path.join(folder, 'runs.csv')
  if os.path.exists(table):  # May be left over from an interrupted run.
    os.remove(table)
  code = sweep.main(['compare', *flags.as_words(own)])
  # A diverged run gives exit code 1 but still leaves a table.
  return 0 if os.path.exists(table) else code


def _summary(folder: str) -> str:
  """Returns the table of a setting's accuracies and losses."""
  columns = ('algo', 'seeds', 'accuracy_mean', 'accuracy_std', 'loss_mean')
  rows = results.read_rows(folder, 'summary.csv', columns)
  for row in rows:  # One seed has no standard deviation.
    row.update({
        name: f'{float(row[name]):.4f}' for name in columns[2:] if row[name]
    })
  return results.markdown(columns, rows)


def check(setting: benchmarks.Setting, folder: str) -> list[dict[str, Any]]:
  """Returns a row of `orderings.COLUMNS` per claim on a folder of `compare`."""
  rows = [
      row for claim in setting.claims for row in orderings.check(
          folder, claim.expect, metric=claim.metric, in_seeds=claim.in_seeds
      )
  ]
  runs = results.find_runs(folder)
  of_perm = [
      path for path in runs if results.read_config(path)['variant'] == 'perm'
  ]
  if setting.visits:
    rows += [
        _counted('no NaN in a round', [_has_nan(path) for path in runs]),
        _counted(
            'no round of visits without one',
            [_has_idle_round(path) for path in of_perm],
        ),
    ]
  if setting.new_clients is not None:
    rows.append(_near(of_perm, setting.new_clients))
  return rows


def _counted(claim: str, fails: Sequence[bool]) -> dict[str, Any]:
  """Returns the row of a fault that no run may have."""
  good = len(fails) - sum(fails)
  return dict(
      claim=claim, left='', right='', seeds=f'{good} of {len(fails)}',
      holds='yes' if fails and not any(fails) else 'no',
  )


def _has_nan(path: str) -> bool:
  """Whether a metric of a run's rounds, or its log, has a NaN."""
  cells = [
      cell for row in results.read_rows(path, results.METRICS)
      for cell in row.values()
  ]
  with open(os.path.join(path, 'train.log'), encoding='utf-8') as file:
    return 'nan' in cells or bool(re.search(r'\bnan\b', file.read()))


def _has_idle_round(path: str) -> bool:
  """Whether a round since A was first solved for had no visit.

  Rounds that `metrics.csv` lacks, and runs without any round, count as such.
  """
  metrics = results.read_run(path).metrics
  begun = np.flatnonzero(metrics.get('lambda', np.zeros(0)) > 0)
  if not begun.size:
    return True
  is_each_there = np.all(np.diff(metrics['round']) == 1)
  return not is_each_there or bool(
      np.any(metrics['visits_idle'][begun[0]:] >= 1)
  )


def _near(runs: Sequence[str], margin: float) -> dict[str, Any]:
  """Returns the row that compares new clients to those that trained."""
  pairs = np.array([_accuracies(path) for path in runs])
  trained, new = np.mean(pairs, axis=0)
  good = int(np.sum(pairs[:, 0] - margin <= pairs[:, 1]))
  return dict(
      claim=f'trained clients-{margin}<=new clients',
      left=f'{trained - margin:.4g}', right=f'{new:.4g}',
      seeds=f'{good} of {len(pairs)}',
      # A diverged run has NaN, and no comparison with NaN holds.
      holds='yes' if trained - margin <= new else 'no',
  )


def _accuracies(path: str) -> list[float]:
  """Returns the mean accuracies of clients that trained, and of new ones."""
  clients = results.read_clients(path)
  if clients is None:  # A diverged run has no clients.csv.
    return [np.nan, np.nan]
  return [
      float(np.mean(clients['accuracy'][clients['seen'] == seen]))
      for seen in (1, 0)
  ]


def write_tables(folder: str) -> None:
  """Writes NPZ files of x, y and client to a folder, which is made if need be.

  Ten clients each:
    tumours.npz: Every second client has swapped labels.
    tumours_by_size.npz: Each client has a tenth of the tumours, by size.
    wines.npz: Each client has a tenth of the wines, by their color.
    diabetes.npz: A regression; each client has a tenth of the patients, by age.

  Digits of twenty clients, whose labels are permuted:
    unequal.npz: Alike in clusters of 14, 4 and 2 clients.
    loners.npz: Alike in two clusters of 7; each of 6 others has its own.
    sizes.npz: Alike in clusters of 5; 8 to 200 rows a client, log-uniform.
  """
  os.makedirs(folder, exist_ok=True)
  x, y = _standardized(datasets.load_breast_cancer)
  client = np.random.default_rng(0).integers(10, size=len(y))
  _save(folder, 'tumours', x, np.where(client % 2, 1 - y, y), client)
  _save(folder, 'tumours_by_size', x, y, _tenths(x[:, 0]))
  x, y = _standardized(datasets.load_wine)
  _save(folder, 'wines', x, y, _tenths(x[:, 9]))
  x, y = _standardized(datasets.load_diabetes)
  y = ((y - y.mean()) / y.std()).astype(np.float32)
  _save(folder, 'diabetes', x, y, _tenths(x[:, 0]))
  sizes = np.exp(
      np.random.default_rng(2).uniform(np.log(8), np.log(200), 20)
  ).astype(int)
  _save_digits(folder, 'unequal', [89] * 20, [14, 4, 2])
  _save_digits(folder, 'loners', [89] * 20, [7, 7] + [1] * 6)
  _save_digits(folder, 'sizes', sizes, [5] * 4)


def _standardized(load) -> tuple[np.ndarray, np.ndarray]:
  x, y = load(return_X_y=True)
  return ((x - x.mean(0)) / x.std(0)).astype(np.float32), y


def _tenths(values) -> np.ndarray:
  """Returns for every row which tenth of the sorted values it is in."""
  return np.argsort(np.argsort(values)) * 10 // len(values)


def _save_digits(folder: str, name: str, counts, clusters) -> None:
  """Writes digits of clients with `counts` rows, in clusters of given sizes."""
  x, y = datasets.load_digits(return_X_y=True)
  rng = np.random.default_rng(0)
  # The first cluster keeps the labels as they are.
  names = [np.arange(10)] + [rng.permutation(10) for _ in clusters[1:]]
  client = np.repeat(np.arange(20), counts)
  rows = np.random.default_rng(1).permutation(len(y))[:len(client)]
  of_client = np.repeat(names, clusters, axis=0)
  _save(
      folder, name, (x[rows] / 16).astype(np.float32),
      of_client[client, y[rows]].astype(np.int32), client,
  )


def _save(folder: str, name: str, x, y, client) -> None:
  np.savez(os.path.join(folder, f'{name}.npz'), x=x, y=y, client=client)


main = flags.Program(
    'benchmark_defaults', _FILE.help, _run,
    flags.own_flag(
        'settings', ','.join(SETTINGS),
        'Settings to run; embedded: all that need no files.',
    ),
    flags.own_flag(
        'seeds', '', 'Seeds, such as 3001,3002, in place of those of a setting;'
        ' they need another output_dir.',
    ),
    flags.own_flag(
        'data_dir', '', 'Folder of EMNIST, School, CIFAR-10 and MNIST.'
    ),
    flags.own_flag(
        'jobs', 1, 'Runs of a setting in parallel; 0: min(cores, 2).',
        minimum=0,
    ),
    flags.own_flag('output_dir', '', 'Folder of the results.'),
    resumes=True,
)
