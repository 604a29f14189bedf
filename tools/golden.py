"""Checks that two commits give bit-identical results.

    .venv/bin/python tools/golden.py COMMIT [OTHER]   # OTHER: HEAD by default.

Both are checked out beside each other and record, one after the other: every
registered method on the tiny task of the contracts for three rounds (states of
server and clients, metrics, evaluations), with the fused and the native
runtime, and some methods with other hyperparameters; and the outputs of
`compare`, `tune`, `choose`, `robustness`, `train` and `predict` on digits. Then
everything is compared: arrays, checkpoint tables and CSV files bit by bit
(without seconds), pages and JSON files without times, versions and paths. The
exit code is 1 if anything differs; a line reports what differs and by how much.

On other machines the last bits differ; `tests/contracts/golden.py` compares
rounded values of every method, which the repository holds.
"""

import argparse
import csv
import hashlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = ('fused', 'native', 'programs')
# Besides the defaults: (method, values of hyperparameters).
VARIANTS = (
    ('fedavg', dict(aggregator='median')),
    ('fedavg', dict(momentum=0.9, weight_decay=0.01, clip_norm=1.0)),
    ('floral', dict(router='oracle')),
    ('perm', dict(variant='two_stage', warmup_rounds=10)),
    ('perm', dict(models=2)),
    ('perm', dict(one_trip=True)),
)
_DIGITS = ('--task=digits', '--rounds=3')
_PROGRAMS = {
    'compare': (
        *_DIGITS, '--algos=perm,fedavg,local_only', '--seeds=0,1', '--jobs=1',
    ),
    'tune': (
        *_DIGITS, '--algos=fedavg,ditto', '--trials=3', '--seeds=0', '--jobs=1',
    ),
    'choose': (
        *_DIGITS, '--algos=local_only,fedavg', '--trials=2', '--seeds=0,1',
        '--jobs=1',
    ),
    'robustness': (
        *_DIGITS, '--algo=fedavg', '--rules=mean,median', '--seeds=0',
        '--attacks=none,sign_flip', '--num_byzantine=1',
    ),
    'train': (*_DIGITS, '--algo=floral', '--export=saved_model'),
}
# Columns and keys that differ between runs.
_TIMES = re.compile(
    r'seconds|cpu|(?<!virtual_)time$|version|memory|commit|hostname', re.I
)
_TEXTS = (
    (
        re.compile(r'\d+:\d\d(:\d\d)?|\d+(\.\d+)? ?(s|ms|(CPU )?seconds)\b'),
        'TIME',
    ),
    (re.compile(r'\b\d+\.\d+\.\d+(\.dev\d+)?\b'), 'VERSION'),
    (re.compile(r'\d{4}-\d\d-\d\d'), 'DATE'),
)
# Pictures, and files with times.
_SKIPPED = ('.png', '.pdf', '.svg', '.log', '.pb', '.lock', '.journal')
# The data of a page, including times, are in the CSV files beside it.
_PAGE_DATA = re.compile(r'<script type="application/json".*?</script>', re.S)


def _record_methods(runtime: str, folder: pathlib.Path) -> None:
  """Writes an .npz of every method after three rounds with a runtime."""
  # pylint: disable=g-import-not-at-top
  import tree
  from tff_pers.config import methods
  from tff_pers.runtime import fused
  from tff_pers.runtime import native
  from tff_pers.testing import rounds
  from tff_pers.testing import tiny
  if runtime == 'fused':
    fused.use(strategy='loop')
  else:
    native.use()
  folder.mkdir(parents=True)
  chosen = [(name, {}) for name in methods.names()]
  for name, values in (*chosen, *VARIANTS):
    print(f'{runtime}: {label(name, values)}', flush=True)
    task = tiny.task()
    process = tiny.build(name, task, **values)
    snapshot = rounds.Snapshot(process.initialize_seeded(rounds.SEED), {})
    found = {}
    for number in range(rounds.NUM_ROUNDS):
      snapshot, found[f'metrics {number}'] = rounds.play(
          process, snapshot, range(task.num_clients), task.train
      )
    case = rounds.Case(process, task, [snapshot])
    found['evaluation'] = rounds.evaluate(case, snapshot)
    found['server'], found['clients'] = snapshot.state, snapshot.clients
    arrays = {
        '/'.join(map(str, path)): np.asarray(leaf)
        for path, leaf in tree.flatten_with_path(found)
    }
    np.savez(folder / f'{label(name, values)}.npz', **arrays)
  native.stop()


def label(name: str, values) -> str:
  """Returns a method with its values, as `perm[models=2]`."""
  if not values:
    return name
  return f'{name}[{",".join(f"{k}={v}" for k, v in values.items())}]'


def _record_programs(folder: pathlib.Path) -> None:
  """Runs the programs on digits, each in a folder of its own."""
  for name, flags in _PROGRAMS.items():
    print(f'programs: {name}', flush=True)
    _program(name, *flags, f'--output_dir={folder / name}')
  rng = np.random.default_rng(0)
  examples = folder / 'examples.npz'
  np.savez(
      examples, x=rng.uniform(size=[20, 64]).astype(np.float32),
      client=np.arange(20) % 4,
  )
  _program(
      'predict', f'--run={folder / "train"}', f'--data_dir={examples}',
      f'--output={folder / "predictions.csv"}',
  )


def _program(name, *flags):
  subprocess.run(
      [sys.executable, '-m', f'binaries.{name}', *flags], check=True,
      stdout=subprocess.DEVNULL,
  )


def record(parts, folder: pathlib.Path) -> None:
  """Records the results of the tree in the working directory."""
  sys.path.insert(0, os.getcwd())
  for part in parts:
    if part == 'programs':
      _record_programs(folder / part)
    else:
      _record_methods(part, folder / part)


def compare(first: pathlib.Path, second: pathlib.Path) -> list[str]:
  """Returns a sentence for everything that differs between two records."""
  names = {
      path.relative_to(top).as_posix() for top in (first, second)
      for path in top.rglob('*') if path.is_file()
  }
  differences = []
  for name in sorted(names):
    if name.endswith(_SKIPPED) or '.tfevents.' in name:
      continue
    paths = [top / name for top in (first, second)]
    missing = [path for path in paths if not path.exists()]
    if missing:
      where = 'first' if missing == paths[:1] else 'second'
      differences.append(f'{name}: not in the {where}')
      continue
    contents = map(_content, paths, (first, second))
    differences += [f'{name}: {text}' for text in _differences(*contents)]
  return differences


def _content(path: pathlib.Path, top: pathlib.Path) -> dict:
  """Returns the compared contents of a file, by name."""
  if path.suffix == '.npz':
    with np.load(path, allow_pickle=False) as arrays:
      return dict(arrays)
  if path.suffix == '.csv':
    with open(path, newline='', encoding='utf-8') as file:
      rows = list(csv.DictReader(file))
    return {
        f'row {number}, {column}': value for number, row in enumerate(rows)
        for column, value in row.items() if not _TIMES.search(column or '')
    }
  if path.suffix == '.sqlite':
    return _tables(path)
  data = path.read_bytes()
  try:
    text = data.decode('utf-8').replace(str(top), '')
  except UnicodeDecodeError:
    return {'bytes': hashlib.sha256(data).hexdigest()}
  if path.suffix == '.json':
    return _entries(json.loads(text))
  text = _PAGE_DATA.sub('', text)
  for pattern, word in _TEXTS:
    text = pattern.sub(word, text)
  return {
      f'line {i}': line for i, line in enumerate(_without_times(text), 1)
  }


def _entries(value, name='') -> dict:
  """Returns the entries of a JSON value by path, without times."""
  if isinstance(value, list):
    value = dict(enumerate(value))
  if not isinstance(value, dict):
    return {name: value}
  return {
      key: entry for part, inner in value.items()
      if not _TIMES.search(str(part))
      for key, entry in _entries(inner, f'{name}/{part}').items()
  }


def _without_times(text: str) -> list[str]:
  """Returns the lines; tables in Markdown lose the columns of times."""
  kept, columns = [], None
  for line in text.splitlines():
    cells = [cell.strip() for cell in line.split('|')]
    if len(cells) < 3:
      columns = None
    elif columns is None:
      columns = [i for i, c in enumerate(cells) if not _TIMES.search(c)]
    kept.append(
        line if columns is None
        else '|'.join(cells[i] for i in columns if i < len(cells))
    )
  return kept


def _tables(path):
  """Returns the rows of all tables of a database, without times."""
  found = {}
  with sqlite3.connect(f'file:{path}?mode=ro', uri=True) as database:
    names = "SELECT name FROM sqlite_master WHERE type='table'"
    for (table,) in database.execute(names).fetchall():
      cursor = database.execute(f'SELECT * FROM "{table}"')
      columns = [column[0] for column in cursor.description]
      for number, row in enumerate(sorted(cursor.fetchall(), key=repr)):
        for column, value in zip(columns, row):
          name = f'{table} {number}, {column}'
          if isinstance(value, str) and value.startswith('{'):
            found.update(_entries(json.loads(value), name))
          elif not _TIMES.search(column):
            found[name] = value
  return found


def _differences(first: dict, second: dict) -> list[str]:
  """Returns what differs between the contents of two files."""
  found = []
  for name in sorted(first.keys() | second.keys()):
    if name not in first or name not in second:
      where = 'first' if name not in first else 'second'
      found.append(f'{name}: not in the {where}')
    elif isinstance(first[name], np.ndarray):
      a, b = first[name], second[name]
      if a.shape != b.shape or a.dtype != b.dtype:
        found.append(f'{name}: {a.dtype}{a.shape}, {b.dtype}{b.shape}')
      elif a.tobytes() != b.tobytes():
        distance = np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)))
        found.append(f'{name}: differs by at most {distance:.2g}')
    elif first[name] != second[name]:
      texts = [str(value)[:200] for value in (first[name], second[name])]
      found.append(f'{name}: {texts[0]} | {texts[1]}')
  return found


def _record_commit(commit, parts, scratch: pathlib.Path) -> pathlib.Path:
  """Checks a commit out and lets it record; returns the folder."""
  tree, folder = scratch / 'tree', scratch / 'found'
  subprocess.run(
      ['git', 'worktree', 'add', '--quiet', '--detach', str(tree), commit],
      cwd=ROOT, check=True,
  )
  try:
    own = tree / 'tools' / 'golden.py'
    # Each commit runs its own code, as later ones may have moved modules.
    if not own.exists():
      shutil.copy(__file__, own)
    for part in parts:
      subprocess.run(
          [sys.executable, str(own), f'--parts={part}', f'--record={folder}'],
          cwd=tree, check=True,
          env=dict(os.environ, PYTHONPATH=str(tree), TF_CPP_MIN_LOG_LEVEL='3'),
      )
  finally:
    subprocess.run(
        ['git', 'worktree', 'remove', '--force', str(tree)],
        cwd=ROOT, check=True,
    )
  return folder


def main(arguments=None) -> int:
  parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
  parser.add_argument('commits', nargs='*', metavar='COMMIT')
  parser.add_argument(
      '--parts', default=','.join(PARTS), help='of ' + ', '.join(PARTS)
  )
  parser.add_argument(
      '--keep', type=pathlib.Path, help='folder in which the records stay'
  )
  parser.add_argument('--record', type=pathlib.Path, help=argparse.SUPPRESS)
  flags = parser.parse_args(arguments)
  parts = flags.parts.split(',')
  if unknown := set(parts) - set(PARTS):
    parser.error(f'--parts are of {", ".join(PARTS)}, found {unknown}')
  if flags.record:
    record(parts, flags.record)
    return 0
  with tempfile.TemporaryDirectory() as scratch:
    top = flags.keep or pathlib.Path(scratch)
    if not 1 <= len(flags.commits) <= 2:
      parser.error('one or two commits must be given')
    commits = (*flags.commits, 'HEAD')[:2]
    folders = []
    for number, commit in enumerate(commits):
      (top / str(number)).mkdir(parents=True)
      folders.append(_record_commit(commit, parts, top / str(number)))
    differences = compare(*folders)
  print('\n'.join(differences))
  print(f'{len(differences)} differences between {" and ".join(commits)}.')
  return 1 if differences else 0


if __name__ == '__main__':
  sys.exit(main())
