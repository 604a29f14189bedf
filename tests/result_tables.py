"""Keeps runs that pages quote in results/, and makes the tables of pages.

    python -m tests.result_tables overview/iid FOLDER [--commit=COMMIT]

takes the runs of a finished comparison (`compare`, `compare_tuned` or a part of
a `benchmark`) from its folder to results/overview/iid.csv: a row for each
variant and seed, which replaces the row of before; other rows stay. COMMIT is
where the runs were made, HEAD by default.

    python -m tests.result_tables

or `make tables`, and the command above as well, writes the tables of README and
docs again: what stands there between <!-- table: overview/iid --> and
<!-- /table -->; with <!-- table: overview/iid with losses --> losses, too;
<!-- table: overview --> is a table of all files of the folder, and
<!-- table: overview/iid,femnist --> of two. A row is stale where its flags are
refused today, or where tests/contracts/golden.json has other values of its
method than at its commit; the table marks it.

    python -m tests.result_tables speed/tiers FOLDER/tiers.csv [--commit=COMMIT]

takes a table that is not one of runs as it is, such as seconds or bytes; it, too,
says at which commit it was made, and which methods in it have changed since.
"""

import argparse
import functools
import hashlib
import json
import math
import os
import pathlib
import re
import shlex
import subprocess
from typing import Any, Iterable, Mapping, Optional, Sequence

from tests import overview
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import results
from tff_pers.evaluation import tuning

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'results'
GOLDEN = 'tests/contracts/golden.json'
PAGES = (ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md')))
BLOCK = re.compile(
    r'(<!-- table: (\S+)( with losses)? -->\n).*?(<!-- /table -->)', re.DOTALL
)
# `variant` is a name of --algos. `algo` has in its brackets what was chosen, too:
# with `flags` and `seed` it is the command of the run. Bytes are those of a client
# and round. `loss` is that of tests in the end, `least_loss` the least of its
# curve, `train_loss` that along the clients' steps of the last evaluated round.
# `golden` is the hash of its method's recorded values. `tiers` has the parameters
# of the model of every tier, and its accuracy on the test data of all after the
# last round, as 616610:0.378. `new_accuracy` is of clients that never train.
COLUMNS = (
    'variant', 'algo', 'flags', 'seed', 'rounds', 'accuracy',
    'accuracy_worst_decile', 'loss', 'bytes_down', 'bytes_up', 'at_border',
    'commit', 'golden', 'least_loss', 'train_loss', 'tiers', 'new_accuracy',
)
_LOSSES = ('loss', 'least_loss', 'train_loss')
_NUMBERS = COLUMNS[3:10]


def golden_hashes(text: str) -> dict[str, str]:
  """Returns a short hash of each method's values in a text of golden.json."""
  return {
      name: hashlib.sha256(
          json.dumps(values, sort_keys=True).encode()
      ).hexdigest()[:8]
      for name, values in json.loads(text).items()
  }


def read(name: str) -> list[dict[str, str]]:
  """Returns the rows of a file such as overview/iid; empty without it.

  Raises:
    damaged.DamagedError: If a column is missing, or a number is none.
  """
  # Older files lack the last four columns.
  rows = results.read_rows(
      str(RESULTS), f'{name}.csv', COLUMNS[:-4], _NUMBERS
  )
  return [{**dict.fromkeys(COLUMNS, ''), **row} for row in rows]


def add(name: str, folder: str, commit: str = 'HEAD') -> None:
  """Writes the runs of a comparison in `folder` to the file of a name.

  Raises:
    ValueError: See `rows_of`.
  """
  made_at, golden = _made_at(commit)
  rows = {
      (row['variant'], row['seed']): row
      for row in [*read(name), *rows_of(folder, made_at, golden)]
  }
  _write(name, COLUMNS, rows.values())


def add_cells(name: str, path: str, commit: str = 'HEAD') -> None:
  """Writes a table that is not one of runs to the file of a name.

  Args:
    name: As for `table`.
    path: A CSV file. Its methods are those that `name`, its first line or its
      first column name.
    commit: Where it was made.

  Raises:
    ValueError: If it has no rows.
  """
  rows = results.read_rows(*os.path.split(path))
  if not rows:
    raise ValueError(f'The table must have rows, found none in {path}.')
  made_at, golden = _made_at(commit)
  first, *others = rows[0]
  cells = ' '.join([name, *others, *(row[first] for row in rows)])
  methods = {*re.findall('[a-z0-9_]+', cells.lower())} & {*_golden_today()}
  made = dict(commit=made_at, golden=' '.join(
      f'{method}:{golden.get(method, "")}' for method in sorted(methods)
  ))
  _write(name, [*rows[0], *made], [{**row, **made} for row in rows])


def _made_at(commit: str) -> tuple[str, dict[str, str]]:
  """Returns the short name of a commit, and its `golden_hashes`."""
  return (
      _git('rev-parse', '--short=8', commit).strip(),
      golden_hashes(_git('show', f'{commit}:{GOLDEN}')),
  )


def _write(
    name: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
  path = RESULTS / f'{name}.csv'
  path.parent.mkdir(parents=True, exist_ok=True)
  results.write_csv(str(path), columns, rows)


def _git(*words: str) -> str:
  return subprocess.run(
      ['git', *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
  ).stdout


def rows_of(
    folder: str, commit: str, golden: Mapping[str, str]
) -> list[dict[str, Any]]:
  """Returns the rows of the comparison in `folder`; of runs that diverged, none.

  Args:
    folder: The folder.
    commit: Where its runs were made.
    golden: `golden_hashes` there.

  Raises:
    ValueError: If it is not finished, or the run of a row is not there.
  """
  summary = {r['algo']: r for r in results.read_rows(folder, 'summary.csv')}
  if not summary:
    raise ValueError(f'The folder must hold a summary.csv, found {folder}.')
  runs = {}
  for path in results.find_runs(folder):
    config = results.read_config(path)
    key = _parsed(config['variant']), str(config['flags']['seed'])
    runs[key] = path
  rows = []
  for measured in results.read_rows(folder, 'runs.csv'):
    variant, seed = measured['algo'], measured['seed']
    path = runs.get((_chosen(summary[variant]), seed))
    if path is None:
      raise ValueError(
          f'The folder must hold a run of {variant} with seed {seed}, found'
          ' none (all values of its grid may have diverged).'
      )
    run = results.read_run(path)
    if run.diverged:
      continue
    last = {name: column[-1] for name, column in run.metrics.items()}
    numbers = {
        'train_loss': '', **last, **measured,
        'new_accuracy': _new_accuracy(run),
        'least_loss': min(run.metrics.get('loss_mean', ()), default=''),
    }
    rows.append(dict(
        variant=variant, algo=run.variant, flags=_flags(run.config), seed=seed,
        rounds=int(last['round']),
        at_border=summary[variant].get('at_border', ''), commit=commit,
        golden=golden.get(brackets.parse(variant)[0], ''), tiers=_tiers(path),
        # An empty cell is what the task lacks. Four digits are shown.
        **{name: numbers[name] and float(f'{float(numbers[name]):.6g}')
           for name in (*_NUMBERS[2:], *_LOSSES[1:], 'new_accuracy')},
    ))
  return rows


def _new_accuracy(run: results.Run) -> Any:
  """Returns the accuracy of clients that never train; '' if there are none."""
  clients = run.clients or {}
  if 'accuracy' not in clients or all(clients['seen']):
    return ''
  return comparison.final_summary(run, 'accuracy', seen=0).mean


def _tiers(folder: str) -> str:
  """Returns the cell `tiers` of a run; empty without tiers, or classes."""
  rows = comparison.tier_summary(results.read_rows(folder, results.TIERS))
  return ' '.join(
      f'{row["parameters"]}:{row["accuracy"]:.6g}' for row in rows
      if row['accuracy'] is not None
  )


def _parsed(variant: str) -> tuple[str, frozenset[tuple[str, str]]]:
  name, options = brackets.parse(variant)
  return name, frozenset(options.items())


def _chosen(row: Mapping[str, str]) -> tuple[str, frozenset[tuple[str, str]]]:
  """Returns the `_parsed` variant of a row of summary.csv, with its choice."""
  name, options = _parsed(row['algo'])
  columns = list(row)
  if 'at_border' in columns:  # Of compare_tuned; what was chosen stands before.
    chosen = {key: row[key] for key in columns[1:columns.index('at_border')]}
    own = [word.partition('=') for word in chosen.pop('own', '').split()]
    options |= {*chosen.items(), *((key, value) for key, _, value in own)}
  return name, options


def _flags(config: Mapping[str, Any]) -> str:
  """Returns the flags of a run that are not in the brackets of its variant."""
  algo, options = brackets.parse(config['variant'])
  left_out = {'algo', 'seed', *options, *(f'{algo}_{name}' for name in options)}
  return ' '.join(
      # The data folder differs between machines.
      f'--{name}={"DATA" if name == "data_dir" else shlex.quote(str(value))}'
      for name, value in config['given'].items() if name not in left_out
  )


def table(name: str, with_losses: bool = False) -> str:
  """Returns the table of a file in Markdown, and what it was made from.

  A line is a variant: means over seeds, ± the standard deviation over seeds, of
  accuracies, or of losses where there are none. `tiers` has the parameters and
  the accuracy of the model of every tier.

  Args:
    name: Such as overview/iid; overview/iid,femnist is a table of tasks, and the
      name of a folder is one of all of its files.
    with_losses: Whether the losses of tests, in the end and at their least, and
      of training are shown.

  Raises:
    ValueError: If there are no rows.
  """
  if ',' in name or (RESULTS / name).is_dir():
    return _table_of_tasks(name)
  if is_cells(name):
    return _table_of_cells(name)
  rows = read(name)
  if not rows:
    raise ValueError(f'A table must have rows in results/, found {name}.')
  groups: dict[Any, list[dict[str, str]]] = {}
  for row in rows:
    # No mean over runs of different flags.
    key = row['variant'], row['algo'], row['flags']
    groups.setdefault(key, []).append(row)
  metric = 'accuracy' if any(row['accuracy'] for row in rows) else 'loss'
  sizes = {
      pair.partition(':')[0] for row in rows for pair in row['tiers'].split()
  }
  lines, notes = [], []
  for own in groups.values():
    variant = f'`{own[0]["variant"]}`'
    reasons = dict.fromkeys(filter(None, map(stale, own)))
    notes += [(variant, reason) for reason in reasons]
    lines.append({
        'method': variant + ' †' * bool(reasons),
        'chosen': _choice(own[0]),
        'seeds': len(own),
        f'{metric}_mean': comparison.mean(_column(own, metric)),
        f'{metric}_std': comparison.std(_column(own, metric)),
        'new clients': comparison.mean(_column(own, 'new_accuracy')),
        'tiers': _of_tiers(own) if len(sizes) > 1 else '',
        **{
            column.replace('_', ' '): comparison.mean(_column(own, column))
            for column in _LOSSES if with_losses
        },
        'worst decile': comparison.mean(_column(own, 'accuracy_worst_decile')),
        'kB down': _kilobytes(own, 'bytes_down'),
        'kB up': _kilobytes(own, 'bytes_up'),
    })
  shown = [
      column for column in lines[0] if column.endswith('_std')
      or any(line[column] not in ('', None) for line in lines)
  ]
  commits = ', '.join(dict.fromkeys(row['commit'] for row in rows))
  return '\n\n'.join([
      tuning.markdown(shown, lines),
      f'(`results/{name}.csv`, commit {commits}; kB of a client and round.)',
      *_stale_notes(notes),
  ])


def is_cells(name: str) -> bool:
  """Returns whether a file is of `add_cells`, not of runs."""
  rows = results.read_rows(str(RESULTS), f'{name}.csv')
  return bool(rows) and 'variant' not in rows[0]


def _table_of_cells(name: str) -> str:
  """Returns a table of `add_cells`; numbers have four digits at most."""
  rows = results.read_rows(str(RESULTS), f'{name}.csv')
  *columns, commit, golden = rows[0]
  notes = []
  for pair in rows[0][golden].split():
    method, _, value = pair.partition(':')
    if not value:
      reason = f'whose values were not recorded yet at {rows[0][commit]}.'
      notes.append((f'`{method}`', reason))
    elif _golden_today().get(method, '') != value:
      notes.append((f'`{method}`', _changed(rows[0][commit])))
  return '\n\n'.join([
      results.markdown(columns, [
          {column: _short(row[column]) for column in columns} for row in rows
      ]),
      f'(`results/{name}.csv`, commit {rows[0][commit]}.)',
      *_stale_notes(notes),
  ])


def _short(cell: str) -> str:
  """Returns a cell, a long number with four digits."""
  if re.fullmatch(r'-?\d+\.\d{5,}', cell):
    return f'{float(cell):.4g}'
  return cell


def _changed(commit: str) -> str:
  return f'whose recorded values have changed since {commit}.'


def _stale_notes(found: Iterable[tuple[str, str]]) -> list[str]:
  """Returns a sentence for each reason, given pairs of a row and a reason."""
  by_reason: dict[str, list[str]] = {}
  for what, reason in dict.fromkeys(found):
    by_reason.setdefault(reason, []).append(what)
  return [
      f'† Stale: {", ".join(rows)}, {reason}'
      for reason, rows in by_reason.items()
  ]


def _rows_of_tasks(name: str) -> dict[str, list[dict[str, str]]]:
  """Returns the rows of the files of overview, or of overview/iid,femnist."""
  folder, _, chosen = name.partition('/')
  tasks = chosen.split(',') if chosen else sorted(
      path.stem for path in (RESULTS / folder).glob('*.csv')
  )
  return {task: read(f'{folder}/{task}') for task in tasks}


def _table_of_tasks(name: str) -> str:
  """Returns the table of a folder, and what its ranks say."""
  rows = _rows_of_tasks(name)
  notes = [
      (f'`{row["variant"]}` on {task}', reason)
      for task, own in rows.items() for row in own if (reason := stale(row))
  ]
  commits = dict.fromkeys(
      row['commit'] for own in rows.values() for row in own
  )
  return '\n\n'.join([
      overview.page(rows, stale, f'images/{name}_ranks.png'),
      f'(`results/{name.partition("/")[0]}/*.csv`,'
      f' commit{"s"[:len(commits) > 1]} {", ".join(commits)}.)',
      *_stale_notes(notes),
  ])


def _write_pictures() -> None:
  """Writes the pictures of tables of tasks that have enough of them."""
  for folder in filter(pathlib.Path.is_dir, RESULTS.iterdir()):
    path = ROOT / 'docs' / 'images' / f'{folder.name}_ranks.png'
    if any(path.name in page.read_text('utf-8') for page in PAGES):
      means = overview.means(overview.scores(_rows_of_tasks(folder.name)))
      overview.write_picture(path, means)


def _choice(row: Mapping[str, str]) -> str:
  """Returns what validation data chose, '' if they chose nothing."""
  before = brackets.parse(row['variant'])[1]
  after = brackets.parse(row['algo'])[1]
  return ', '.join(
      f'{key}={value}' for key, value in after.items() if key not in before
  ) + ' (border)' * (row['at_border'] == 'yes')


def _of_tiers(rows: Sequence[Mapping[str, str]]) -> str:
  """Returns means over seeds by tier, each with the parameters of its model."""
  found: dict[str, list[Optional[float]]] = {}
  for row in rows:
    for pair in row['tiers'].split():
      parameters, accuracy = pair.split(':')
      found.setdefault(parameters, []).append(float(accuracy))
  return ', '.join(
      f'{int(parameters):,}: {comparison.mean(values):.4f}'
      for parameters, values in found.items()
  )


def _column(
    rows: Sequence[Mapping[str, str]], name: str
) -> list[Optional[float]]:
  return [float(row[name]) if row[name] else None for row in rows]


def _kilobytes(rows: Sequence[Mapping[str, str]], name: str) -> str:
  number = comparison.mean(_column(rows, name))
  return '' if number is None or math.isnan(number) else f'{number / 1e3:.1f}'


def stale(row: Mapping[str, str]) -> str:
  """Returns why the command of a row may give something else today, or ''."""
  method = brackets.parse(row['algo'])[0]
  if _golden_today().get(method, '') != row['golden']:
    return _changed(row['commit'])
  reason = refusal(row['algo'], row['flags'])
  return reason and f'whose flags are refused: {reason}'


@functools.lru_cache(maxsize=None)
def _golden_today() -> dict[str, str]:
  return golden_hashes((ROOT / GOLDEN).read_text('utf-8'))


@functools.lru_cache(maxsize=None)
def refusal(algo: str, words: str) -> str:
  """Returns the sentence with which programs refuse flags, or ''.

  Args:
    algo: The method with its options.
    words: The other flags.
  """
  # pylint: disable=g-import-not-at-top
  from tff_pers.data import tasks
  from tff_pers.experiments import experiment
  from tff_pers.experiments import flags
  known = _all_flags()
  try:
    given = flags.parse(['', *shlex.split(words)], known)
    method, _ = experiment.of_variant(algo, given, known)
    with flags.usage_errors():
      task = tasks.get(given.get('task', flags.DEFAULTS['task']))
    experiment.check_owners(given, known, [method.name], task.name)
  except flags.UsageError as error:
    return str(error)
  return ''


@functools.lru_cache(maxsize=None)
def _all_flags() -> dict[str, Any]:
  from tff_pers.experiments import flags  # pylint: disable=g-import-not-at-top
  return flags.all_flags()


def rendered(text: str) -> str:
  """Returns a page with the tables of today."""
  return BLOCK.sub(
      lambda m: f'{m[1]}\n{table(m[2], bool(m[3]))}\n\n{m[4]}', text
  )


def main() -> None:
  """Runs the commands above."""
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter
  )
  parser.add_argument('name', nargs='?')
  parser.add_argument('folder', nargs='?')
  parser.add_argument('--commit', default='HEAD')
  typed = parser.parse_args()
  if typed.name and not typed.folder:
    parser.error('NAME must be followed by FOLDER.')
  try:
    if typed.name:
      adds = add_cells if typed.folder.endswith('.csv') else add
      adds(typed.name, typed.folder, typed.commit)
    for page in PAGES:
      files.write_text(str(page), rendered(page.read_text('utf-8')))
    _write_pictures()
  except ValueError as error:
    parser.error(str(error))


if __name__ == '__main__':
  main()
