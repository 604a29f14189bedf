"""Tables of a page that other programs wrote beside the runs."""

import json
import os
from typing import Any, Iterator, Mapping, Optional, Sequence

from tff_pers.evaluation import results
from tff_pers.evaluation import summary
from tff_pers.evaluation.report import cells

CHOICE, TRIALS, BEST = 'choice.csv', 'trials.csv', 'best.json'
# Files of a choice: differences to the recommended method, and text.
DIFFERENCES, SENTENCES = 'differences.csv', 'recommendation.txt'
# The text after this heading is shown below the table.
NOTES = 'How to read this'
_FILES = (CHOICE, BEST, TRIALS)
# Columns of texts in the tables of a choice; all others are numbers.
_TEXTS = ('algo', 'metric', 'recommended', 'variant')
_CHOICE = (
    cells.Column('algo', 'Method', 'text'),
    cells.Column('value_validation', 'Validation', 'number',
                 'The value by which the choice is made.'),
    cells.Column('value_test', 'Test'),
    cells.Column('low', 'from', 'number', '95 % interval over clients, test.'),
    cells.Column('high', 'to', 'number', '95 % interval over clients, test.'),
    cells.Column('value_worst_decile', 'Worst decile', 'number',
                 'Mean over the worst tenth of the clients, test.'),
    cells.Column('share_hurt_vs_local_only', 'Hurt against local_only',
                 'percent', 'Clients that are better off training alone.'),
    cells.Column('share_hurt_vs_fedavg', 'Hurt against fedavg', 'percent',
                 'Clients that are better off with one model for all.'),
    cells.Column('seconds', 'Time', 'seconds'),
    cells.Column('recommended', 'Recommended', 'text'),
)
_DIFFERENCES = (
    cells.Column('algo', 'Method', 'text'),
    cells.Column('test', 'Test'),
    cells.Column('difference', 'Difference', 'number',
                 'If > 0, better than the recommended method, for accuracies'
                 ' and losses alike.'),
    cells.Column('difference_low', 'from', 'number',
                 '95 % interval over clients.'),
    cells.Column('difference_high', 'to', 'number',
                 '95 % interval over clients.'),
    cells.Column('p_value', 'p', 'number',
                 'Paired t test over clients, not corrected for the number of'
                 ' methods.'),
    cells.Column('share_better', 'Clients better off', 'percent'),
    cells.Column('share_worse', 'Clients worse off', 'percent'),
    cells.Column('bytes_per_client', 'Sent per client', 'bytes',
                 'Down and up, if it takes part in all rounds of a run.'),
    cells.Column('trials', 'Trials', 'integer'),
    cells.Column('variant', 'Chosen values', 'text'),
)
_BEST = (
    cells.Column('algo', 'Method', 'text'),
    cells.Column('trial', 'Trial', 'integer'),
    cells.Column('validation', 'Validation', 'number',
                 'The value by which the trial was chosen.'),
    cells.Column('variant', 'Chosen', 'text'),
)


def find(folders: Sequence[str]) -> list[str]:
  """Returns the paths of such files in and under `folders`, by kind."""
  found = dict.fromkeys(
      os.path.join(path, name)
      for folder in folders for path, _, files in os.walk(folder)
      for name in _FILES if name in files
  )
  return sorted(
      found, key=lambda path: (_FILES.index(os.path.basename(path)), path)
  )


def of_paths(paths: Sequence[str], top: str) -> list[dict[str, Any]]:
  """Returns a section for each file (see `_READERS`), with `place`.

  That is the path relative to the folder `top`.

  Raises:
    ValueError: If a file is damaged; the message names it.
  """
  return [
      dict(section, place=os.path.relpath(path, top))
      for path in paths for section in _read(path)
  ]


def _read(path: str) -> list[dict[str, Any]]:
  folder, name = os.path.split(path)
  try:
    return list(_READERS[name](folder))
  except (KeyError, TypeError, ValueError) as error:
    raise ValueError(
        f'`{path}` must be a table that a program wrote, found'
        f' {type(error).__name__}: {error}.'
    ) from error


def _choice(folder: str) -> Iterator[dict[str, Any]]:
  """Yields `table`, `recommended` and `rows` like `result_data.final_values`.

  Also a section of differences, if there are any.
  """
  rows = _read_numbers(folder, CHOICE)
  if not rows:
    return
  metric = rows[0].get('metric', 'accuracy')
  for row in rows:
    for part in ('validation', 'test', 'worst_decile'):
      # In a folder that an earlier version wrote.
      row.setdefault(f'value_{part}', row.get(f'accuracy_{part}'))
    is_recommended = row['recommended'].strip().lower() in ('1', 'true', 'yes')
    row['recommended'] = 'yes' if is_recommended else None
  recommended = [row['algo'] for row in rows if row['recommended']]
  yield dict(
      kind='choice', title='Which method', table=cells.table(tuple(
          column._replace(title=f'{column.title} {metric}')
          if column.name in ('value_validation', 'value_test') else column
          for column in _CHOICE
      ), rows),
      **_sentences(folder), recommended=recommended,
      metric=metric, isHigherBetter=summary.is_higher_better(metric), rows=[
          dict(label=row['algo'], **dict(zip(
              ('value', 'low', 'high'),
              cells.series([row['value_test'], row['low'], row['high']]),
          )))
          for row in rows if None not in (
              row['value_test'], row['low'], row['high']
          )
      ],
  )
  if os.path.exists(os.path.join(folder, DIFFERENCES)):
    yield _differences(folder)


def _sentences(folder: str) -> dict[str, list[str]]:
  """Returns `sentences` above the figure and `notes` below the table."""
  path = os.path.join(folder, SENTENCES)
  if not os.path.exists(path):
    return dict(sentences=[], notes=[])
  with open(path, encoding='utf-8') as file:
    blocks = file.read().strip().split('\n\n')
  end = blocks.index(NOTES) if NOTES in blocks else len(blocks)
  return dict(sentences=blocks[:end], notes=blocks[end + 1:])


def _differences(folder: str) -> dict[str, Any]:
  """Returns the section that compares methods to the recommended one."""
  columns = [column.name for column in _DIFFERENCES]
  rows = _read_numbers(folder, DIFFERENCES, columns)
  return dict(
      kind='differences', table=cells.table(_DIFFERENCES, rows),
      title='Compared with the recommended method, on the same clients',
  )


def _trials(folder: str) -> Iterator[dict[str, Any]]:
  yield dict(
      kind='trials', title='Trials',
      table=cells.text_table(results.read_rows(folder, TRIALS)),
  )


def _best(folder: str) -> Iterator[dict[str, Any]]:
  yield dict(
      kind='best', title='Chosen trials', table=cells.table(_BEST, [
          dict(dict.fromkeys(('trial', 'variant', 'validation')), **entry or {},
               algo=algo)
          for algo, entry in read_best(folder).items()
      ]),
  )


def read_best(folder: str) -> Mapping[str, Optional[Mapping[str, Any]]]:
  """Returns `best.json`: the choice by variant, or None.

  Raises:
    ValueError: If it is damaged.
  """
  path = os.path.join(folder, BEST)
  with open(path, encoding='utf-8') as file:
    found = json.load(file)
  entries = found.values() if isinstance(found, dict) else [()]
  for entry in filter(lambda entry: entry is not None, entries):
    if not isinstance(entry, dict) or not {'variant', 'folder'} <= set(entry):
      raise ValueError('no variant and folder of a chosen trial')
  return found


def without_trials(
    runs: Sequence[results.Run], paths: Sequence[str]
) -> list[results.Run]:
  """Returns the runs without the trials of finished searches.

  Chosen trials are kept, under the variant that was searched. For `paths`, see
  `find`.
  """
  searches = {
      folder: read_best(folder)
      for folder, name in map(os.path.split, paths) if name == BEST
  }
  kept = []
  for run in runs:
    inside = [
        folder for folder in searches if run.folder.startswith(folder + os.sep)
    ]
    if not inside:
      kept.append(run)
    for folder in inside[-1:]:
      kept += _chosen(run, folder, searches[folder])
  return kept


def _chosen(run: results.Run, folder: str, best) -> Iterator[results.Run]:
  """Yields the run under the variant for which it was chosen, if any."""
  place = os.path.join(os.sep, os.path.relpath(run.folder, folder))
  for name, entry in best.items():
    if entry is None or run.variant != entry['variant']:
      continue
    if os.path.join(os.sep, entry['folder'], '') in place:
      yield run._replace(config=dict(run.config, variant=name))


_READERS = {CHOICE: _choice, TRIALS: _trials, BEST: _best}


def _read_numbers(
    folder: str, name: str, required: Sequence[str] = ()
) -> list[dict[str, Any]]:
  """Returns the rows of a CSV file with numbers, None for empty cells."""
  return [
      {column: text if column in _TEXTS else float(text) if text else None
       for column, text in row.items()}
      for row in results.read_rows(folder, name, required)
  ]
