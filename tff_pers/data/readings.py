"""How a table is read: the roles of its columns, by the flags of a task."""

import collections
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from tff_pers.data import arrow_files
from tff_pers.data import cells
from tff_pers.data import client_names
from tff_pers.data import errors
from tff_pers.data import tables

# Other names of the columns of clients and of y, without punctuation.
_OTHERWISE = {
    'client': (
        'clientid', 'user', 'userid', 'hospital', 'hospitalid', 'site',
        'siteid', 'device', 'deviceid', 'patient', 'patientid', 'center',
        'writer', 'subject', 'group',
    ),
    'y': ('label', 'target', 'class', 'outcome', 'response', 'diagnosis'),
}
_FLAGS = {'client': 'client_column', 'y': 'label_column',
          'split': 'split_column'}


class Reading(NamedTuple):
  """The options for reading features.

  Attributes:
    task: The task, for the flags that messages name.
    missing: Whether cells may be missing; they are NaN in the table.
    texts: Whether a column may hold texts.
    text_columns: Columns to read as texts even if all cells are numbers.
    codes: Columns that are declared as codes, of which 1 and 1.0 are the same.
    date_columns: Columns that become year, month, weekday and days.
    dropped: Columns that are dropped.
    only: The features to read; None: all.
    columns: Names of the columns of `client`, `y` and `split`.
    offsets: What is subtracted from numbers, by name of the feature, if it is
      fixed already; see `features.Column`.
    needs: The required columns. Without `y`, all y are 0; without `client`, all
      rows belong to one client named ''.
  """

  task: str
  missing: bool = False
  texts: bool = False
  text_columns: frozenset[str] = frozenset()
  codes: frozenset[str] = frozenset()
  date_columns: frozenset[str] = frozenset()
  dropped: frozenset[str] = frozenset()
  only: Optional[frozenset[str]] = None
  columns: Mapping[str, str] = {name: name for name in _FLAGS}
  offsets: Mapping[str, float] = {}
  needs: tuple[str, ...] = tables.REQUIRED

  @classmethod
  def by_options(cls, task: str, options: Mapping[str, Any]) -> 'Reading':
    """Returns the reading for options of the task, given by name."""
    listed = lambda name: frozenset(client_names.parse(options.get(name, '')))
    return cls(
        task, missing=options.get('missing') == 'mean',
        texts=options.get('categories') == 'one_hot',
        text_columns=listed('categorical'), codes=listed('categorical'),
        date_columns=listed('dates'), dropped=listed('drop_columns'),
        columns={
            name: options.get(flag, name) for name, flag in _FLAGS.items()
        },
    )

  def outputs(self, column: str) -> list[str]:
    """Returns the names of the table columns that a column becomes."""
    if column not in self.date_columns:
      return [column]
    return cells.names_of_date(column)

  def names(self, file: arrow_files.File) -> list[Optional[str]]:
    """Returns the role of each column of a file; None: it is dropped.

    Raises:
      errors.DataError: If a column that an option names does not exist.
    """
    kind = {column: name for name, column in self.columns.items()}
    names = [
        None if name in self.dropped else kind.get(name, name)
        for name in file.names
    ]
    if self.only is None:
      self._check_named(file, names)
    return names

  def _check_named(self, file: arrow_files.File, names) -> None:
    """Raises if options name columns that do not exist."""
    own = {name: column for name, column in self.columns.items()
           if name != column}
    found = [name for name in names if name not in (None, *_FLAGS)]
    for flag, columns, known in (
        *((_FLAGS[name], [column], file.names) for name, column in own.items()),
        ('drop_columns', self.dropped, file.names),
        ('categorical', self.text_columns, found),
        ('dates', self.date_columns, found),
    ):
      for column in sorted(set(columns).difference(known)):
        near = errors.nearest(column, known)
        raise errors.DataError(
            f'{file.path} must have the column of --{self.task}_{flag}, found'
            f' no {column!r} among {errors.listed(known)}.'
            + (f' Tip: {near!r}.' if near else '')
        )


def features(
    file: arrow_files.File, reading: Reading, names: Sequence[Optional[str]]
) -> list[str]:
  """Returns the names of the columns of features.

  `names` is what `Reading.names` returns for the file.

  Raises:
    errors.DataError: If one has no name or a duplicate name, or is missing.
  """
  path = file.path
  for required in reading.needs:
    if required not in names:
      raise errors.DataError(
          f'{path} must have the columns {", ".join(reading.needs)} and'
          ' features, found no'
          f' {reading.columns.get(required, required)} among'
          f' {errors.listed(file.names) or "none"}.'
          + _tip_for(required, file.names, reading.task)
      )
  for number, name in enumerate(names, start=1):
    # Pandas has substitutes for an empty name.
    if name is not None and (
        not name or name.startswith(('Unnamed: ', '__index_level_'))
    ):
      raise errors.DataError(
          f'{path} must name every column, found column {number} without a'
          f' name{f" ({name})" if name else ""}. Tip: if it counts the rows'
          ' (an index), leave it out, as pandas does with'
          f' to_{reading.task}(..., index=False); else name it.'
      )
  for name, times in collections.Counter(names).items():
    if name is not None and times > 1:
      shown = reading.columns.get(name, name)
      also = f', which is not --{reading.task}_{_FLAGS[name]}={shown}' if (
          shown != name
      ) else ''
      raise errors.DataError(
          f'{path} must name every column once, found {name} {times} times'
          f'{also}.'
      )
  found = [
      name for name in names
      if name is not None
      and name not in (*tables.REQUIRED, *tables.OPTIONAL)
      and (reading.only is None or reading.only & {*reading.outputs(name)})
  ]
  if reading.only is not None:
    made = {made for name in found for made in reading.outputs(name)}
    unused = [
        column for column, name in zip(file.names, names)
        if name not in (None, *found, *tables.REQUIRED, *tables.OPTIONAL)
    ]
    for name in sorted(reading.only - made):
      near = errors.nearest(name, unused)
      raise errors.DataError(
          f'{path} must have the columns of the training data, found no'
          f' {name!r} among {errors.listed(file.names)}.'
          + (f' Tip: rename {near!r}.' if near else '')
      )
  if not found and reading.only is None:
    raise errors.DataError(
        f'{path} must have at least one column of features beside client, y,'
        f' {" and ".join(tables.OPTIONAL)}, found none.'
    )
  return found


def _tip_for(required: str, names: Sequence[str], task: str) -> str:
  """Returns a tip with the flag, and a column that may be the one meant."""
  keys = {''.join(filter(str.isalnum, n.casefold())): n for n in names[::-1]}
  for key in (required, *_OTHERWISE[required]):
    if key in keys:
      return f' Tip: --{task}_{_FLAGS[required]}={keys[key]!r}.'
  return f' Tip: --{task}_{_FLAGS[required]} names another column.'
