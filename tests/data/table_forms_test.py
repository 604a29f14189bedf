"""Forms of files that people have, and what each of them gives.

The table of the documentation in lines: a form is a file (or a folder) with the
options that its owner needs, and the result: the clients, and numbers
or a part of the sentence that says what was found.
"""

import datetime
import gzip
from typing import NamedTuple, Optional

import numpy as np
import pyarrow as pa
from pyarrow import parquet
import pytest

from tests import built
from tff_pers.data import arrow_files
from tff_pers.data import columnar
from tff_pers.data import errors
from tff_pers.data import readings

_ROWS = [
    ('ann', 'no', '1.5', '3'), ('ann', 'yes', '2.5', '4'),
    ('bob', 'no', '-0.25', '5'), ('bob', 'yes', '1000.75', '6'),
]
_A = [1.5, 2.5, -0.25, 1000.75]


def _text(separator=',', header='client,y,a,b', rows=_ROWS, comma=False):
  lines = [header.split(','), *rows]
  text = '\n'.join(separator.join(line) for line in lines) + '\n'
  return text.replace('.', ',') if comma else text


def _plain(**changes):
  return _text(**changes).encode()


def _named(ann='ann', encoding='utf-8'):
  return _text().replace('ann', ann).encode(encoding)


def _with(name, *values):
  """Returns the table with one column more."""
  rows = [(*row, str(value)) for row, value in zip(_ROWS, values)]
  return _plain(header=f'client,y,a,b,{name}', rows=rows)


def _many(name, values):
  """Returns a longer table, of a client, with a column of features."""
  return ''.join([f'client,y,{name}\n', *(
      f'ann,{("no", "yes")[row % 2]},{value}\n'
      for row, value in enumerate(values)
  )]).encode()


class Form(NamedTuple):
  """A form of files.

  Attributes:
    files: Bytes by name, or a table of Parquet.
    gives: Values of the first feature, or a part of the sentences about it.
    clients: Names of the clients.
    options: Of the task.
    error: Whether `gives` is the reason why the form is refused.
  """

  files: dict[str, object]
  gives: object = _A
  clients: Optional[tuple[str, ...]] = ('ann', 'bob')
  options: dict[str, str] = {}
  error: bool = False


def _csv(content, gives=_A, clients=('ann', 'bob'), **options):
  return Form({'my.csv': content}, gives, clients, options)


def _refused(content, gives, **options):
  return Form({'my.csv': content}, gives, None, options, True)


_DAYS = ['2024-01-31', '2024-02-29', '2023-12-31', '2024-02-29']
_SECONDS = [1700000000 + 7 * row for row in range(4)]
_GERMAN = [('ann', 'no', '1.234,5', '3'), *_ROWS[1:]]
_PARQUET = dict(
    client=['ann', 'ann', 'bob', 'bob'], y=['no', 'yes'] * 2, a=_A, b=[3, 4, 5, 6]
)
_HEADS = {name: b'a,y\n1,0\n2,1\n' for name in ('bob.csv', 'ann.csv')}

FORMS = {
    'commas': _csv(_plain()),
    'semicolons': _csv(_plain(separator=';'), "';' between cells"),
    'semicolons, decimal commas': _csv(
        _plain(separator=';', comma=True), 'decimal commas'
    ),
    'points of thousands': _csv(
        _plain(separator=';', rows=[
            tuple(cell if cell == '1.234,5' else cell.replace('.', ',')
                  for cell in row) for row in _GERMAN
        ]), [1234.5, *_A[1:]],
    ),
    'points in names beside decimal commas': _csv(
        _plain(separator=';', rows=[
            ('1.234', 'no', '1,5', '3'), ('1.234', 'yes', '2,5', '4'),
            ('1234', 'no', '-0,25', '5'), ('1234', 'yes', '1000,75', '6'),
        ]), clients=('1.234', '1234'),
    ),
    'points in codes beside decimal commas': _csv(
        _many('dose', ['2.500', '2500'] * 2).replace(b',', b';')
        .replace(b'\n', b';0,5\n').replace(b'dose;0,5', b'dose;a'),
        'different texts: 2 in dose', ('ann',), categorical='dose',
    ),
    'a typing error among decimal commas, one-hot': _refused(
        _many('a', [*(f'{row};5' for row in range(30)), '3o'])
        .replace(b',', b':').replace(b';', b',').replace(b':', b';'),
        "as it is in 30, found 1 that is not ('3o')", categories='one_hot',
    ),
    'quoted decimal commas': _csv(
        _plain().replace(b'1.5', b'"1,5"').replace(b'2.5', b'"2,5"')
        .replace(b'-0.25', b'"-0,25"').replace(b'1000.75', b'"1000,75"'),
    ),
    'commas of thousands': _refused(
        _plain().replace(b'1000.75', b'"1,000"').replace(b'.', b''),
        "found '1,000'",
    ),
    'commas of thousands and points': _refused(
        _plain().replace(b'1000.75', b'"1,000.75"'), "found '1,000.75'"
    ),
    'tabs in .tsv': Form({'my.tsv': _plain(separator='\t')}),
    'bars': _csv(_plain(separator='|')),
    'semicolons and commas in names': _csv(
        'client;y;a (m, s, t, u, v);b\n'.encode() + _plain(separator=';').split(b'\n', 1)[1]
    ),
    'byte order mark': _csv(b'\xef\xbb\xbf' + _plain()),
    'UTF-16 of a spreadsheet': _csv(
        _named('änn').decode().encode('utf-16'), clients=('bob', 'änn')
    ),
    'UTF-16 without a mark': _csv(_text().encode('utf-16-le')),
    'UTF-16, bytes swapped': _csv(_text().encode('utf-16-be')),
    'Latin-1 is said': _csv(
        _named('änn', encoding='latin-1'), 'text in cp1252', ('bob', 'änn')
    ),
    'UTF-8 with a broken byte': _refused(
        _named('ännéü').replace(b'bob', b'b\xffb', 1), 'found UTF-8 with 1 other'
    ),
    'gzip': Form({'my.csv.gz': gzip.compress(_plain())}),
    'gzip without its end': _csv(gzip.compress(_plain())),
    'text with the end of gzip': Form({'my.csv.gz': _plain()}),
    'gzip of UTF-16': _csv(gzip.compress(_text().encode('utf-16'))),
    'lines of Windows': _csv(_plain().replace(b'\n', b'\r\n')),
    'empty lines': _csv(_plain().replace(b'\n', b'\n\n')),
    'spaces around': _csv(_plain().replace(b',', b' , ')),
    'commas in names of clients': _csv(
        _named('"Smith, Ann"'), clients=('Smith, Ann', 'bob')
    ),
    'a spreadsheet': _refused(
        b'PK\x03\x04\x14\x00', 'must be a text, found a spreadsheet. Tip: save'
    ),
    'an old spreadsheet': _refused(b'\xd0\xcf\x11\xe0\xa1', 'a spreadsheet'),
    'Parquet named .csv': _refused(b'PAR1\x15', '--task=parquet'),
    'other names': _csv(
        _plain(header='hospital id,target,a,b'),
        client_column='hospital id', label_column='target',
    ),
    'other names are offered': _refused(
        _plain(header='hospital id,y,a,b'),
        "found no client among hospital id, y, a, b. Tip:"
        " --csv_client_column='hospital id'.",
    ),
    'a target is offered': _refused(
        _plain(header='client,target,a,b'), "--csv_label_column='target'"
    ),
    'capitals are offered': _refused(
        _plain(header='Client,y,a,b'), "--csv_client_column='Client'"
    ),
    'a near name is offered': _refused(
        _plain(header='user_id,y,a,b'),
        "no 'userid' among user_id, y, a, b. Tip: 'user_id'.",
        client_column='userid',
    ),
    'two columns for one': _refused(
        _with('hospital', *'1122'),
        'found client 2 times, which is not --csv_client_column=hospital',
        client_column='hospital',
    ),
    'one of two is dropped': _csv(
        _with('hospital', *'1122'), client_column='hospital',
        drop_columns='client', clients=('1', '2'),
    ),
    'a split of another name': _csv(
        _with('part', *['train', 'test'] * 2), '2 features: a, b.',
        split_column='part',
    ),
    'columns that are dropped': _csv(
        _with('note', *'wxyz'), '1 feature: a', drop_columns='b,note'
    ),
    'nothing to drop': _refused(
        _plain(), "--csv_drop_columns, found no 'c'", drop_columns='c'
    ),
    'a name twice': _refused(
        _plain(header='client,y,a,a'), 'found a 2 times'
    ),
    'empty y': _csv(
        _plain(rows=[*_ROWS, ('bob', '', '9', '9'), ('bob', 'NA', '9', '9')]),
        '2 of 6 rows have no y and are left out, the first in line 6.',
    ),
    'rows with y': _csv(_plain(rows=[('ann', '', '9', '9'), *_ROWS])),
    'clients without y': _csv(
        _plain(rows=[('cid', '', '9', '9'), *_ROWS])
    ),
    'clients in capitals': _csv(
        _plain(rows=[*_ROWS, *[('Bob', *row[1:]) for row in _ROWS]]),
        "only in capitals, spaces or a final .0 count as different, with these"
        " numbers of rows: 'Bob' (4) and 'bob' (2).", ('Bob', 'ann', 'bob'),
    ),
    'clients with and without .0': _csv(
        _named('1').replace(b'bob', b'1.0'),
        "these numbers of rows: '1' (2) and '1.0' (2).", ('1', '1.0'),
    ),
    'classes in capitals': _csv(
        _plain(rows=[*_ROWS, ('bob', 'NO', '1', '2')]),
        "Classes that differ only in capitals, spaces or a final .0 count as"
        " different, with these numbers of rows: 'NO' (1) and 'no' (2).",
    ),
    'texts with other spaces': _csv(
        _with('town', 'new  york', 'New York', 'rome', 'rome'),
        "Texts of town that differ only in capitals, spaces or a final .0 count as"
        " different, with these numbers of rows: 'new  york' (1) and 'New York' (1).",
        categories='one_hot',
    ),
    'a typing error among numbers': _refused(
        _many('a', [*range(30), '3o']),
        "a must be a number and is one except for '3o'; it must be in every line,"
        " found '3o' at client ann in line 32. Tip: --csv_missing=mean",
    ),
    'a typing error, one-hot': _refused(
        _many('a', [*range(30), '3o']),
        "must be a number in every line, as it is in 30, found 1 that is not"
        " ('3o'), the first at client ann in line 32. Tip: correct these cells",
        categories='one_hot',
    ),
    'over 50 texts': _csv(
        _many('town', [f't{row % 60}' for row in range(90)]),
        'town has 60 different texts (t0: 2, t1: 2, t2: 2 rows, ...)', ('ann',),
        categories='one_hot',
    ),
    'codes': _csv(
        _many('thal', [row % 4 for row in range(24)]),
        'thal hold few whole numbers; if they are codes: --csv_categorical=thal',
        ('ann',),
    ),
    'codes as categories': _csv(
        _many('thal', [row % 4 for row in range(24)]),
        'they are 4 numbers', ('ann',), categorical='thal',
    ),
    'codes with and without gaps': Form(
        {'ann.csv': b'y,a\n0,0\n1,1\n', 'bob.csv': b'y,a\n0,1.0\n1,\n0,0.0\n'},
        'different texts: 2 in a', options=dict(categorical='a', missing='mean'),
    ),
    'identifiers': _csv(
        _many('id', range(100, 130)),
        'id differ in every row, as identifiers do; to leave them out:'
        ' --csv_drop_columns=id.', ('ann',),
    ),
    'identifiers that are texts': _refused(
        _many('id', [f'p{row}' for row in range(30)]), '--csv_drop_columns=id'
    ),
    'seconds since 1970': _csv(
        _plain(header='client,y,time,b', rows=[
            (client, y, str(time), b)
            for (client, y, _, b), time in zip(_ROWS, _SECONDS)
        ]), _SECONDS,
    ),
    'seconds and zeros': _csv(
        _many('time', [0, *_SECONDS]),
        '0 is far from all other numbers of time, whose differences are lost'
        ' beside it; if it means no value, empty these cells:'
        ' --csv_missing=mean.', ('ann',),
    ),
    'dates': _refused(
        _many('day', _DAYS * 3), '--csv_dates=day makes year, month, weekday'
    ),
    'parts of dates': _csv(
        _many('day', _DAYS), [2024, 2024, 2023, 2024], ('ann',), dates='day'
    ),
    'many dates, of which no part is a code': _csv(
        _many('day', [f'2024-01-{1 + row:02}' for row in range(24)]),
        'day days. Features are', ('ann',), dates='day',
    ),
    'dates of Germany': _csv(
        _many('day', ['31.01.2024', '29.02.2024 13:30'] * 2),
        '4 features: day year, day month, day weekday, day days', ('ann',),
        dates='day',
    ),
    'no dates': _refused(
        _plain(), "must be a date, as 2024-01-31 or 31.01.2024, in every line,"
        " found '1.5'", dates='a',
    ),
    'one file for each client': Form(_HEADS, [1, 2, 1, 2]),
    'files of another order': Form(
        {**_HEADS, 'bob.csv': b'y,a\n0,1\n1,2\n'}, [1, 2, 1, 2]
    ),
    'files of other columns': Form(
        {**_HEADS, 'bob.csv': b'a,z\n1,0\n'}, 'same columns, found y, z', None,
        {}, True,
    ),
    'files with a column of clients': Form(
        {f'{name}.csv': _plain() for name in ('may', 'june')}, '8 rows (ann: 4'
    ),
    'files of a split': Form(
        {'train.csv': b'a,y\n1,0\n', 'test.csv': b'a,y\n1,0\n'},
        'must hold one file for each client, found test, train', None, {}, True,
    ),
    'a file and its copy': Form(
        {**_HEADS, 'ann.csv.gz': gzip.compress(_HEADS['ann.csv'])},
        'found ann.csv and ann.csv.gz. Tip: if one is a copy', None, {}, True,
    ),
    'a file and its copy, with a column of clients': Form(
        {'may.csv': _plain(), 'may.tsv': _plain(separator='\t')},
        'found may.csv and may.tsv', None, {}, True,
    ),
    'Parquet': Form({'my.parquet': _PARQUET}),
    'Parquet of a client': Form({
        f'{name}.parquet': {c: v[:2] for c, v in _PARQUET.items() if c != 'client'}
        for name in ('ann', 'bob')
    }, [1.5, 2.5] * 2),
    'dates of Parquet': Form(
        {'my.parquet': {**_PARQUET, 'a': [
            datetime.date(2024, 1, 31), datetime.date(2023, 1, 31)] * 2
        }}, [2024, 2023] * 2, options=dict(dates='a'),
    ),
    'dates of Parquet as they are': Form(
        {'my.parquet': {**_PARQUET, 'a': [datetime.date(2024, 1, 31)] * 4}},
        'found date32[day]. Tip: --parquet_dates=a', None, {}, True,
    ),
}


def _write(folder, form):
  """Writes the form; returns the task and the path."""
  for name, content in form.files.items():
    if isinstance(content, bytes):
      (folder / name).write_bytes(content)
    else:
      parquet.write_table(pa.table(content), folder / name)
  kind = 'parquet' if next(iter(form.files)).endswith('parquet') else 'csv'
  return kind, str(folder / name if len(form.files) == 1 else folder)


@pytest.mark.parametrize('name', FORMS)
def test_a_form_gives(name, tmp_path):
  form = FORMS[name]
  kind, path = _write(tmp_path, form)
  if form.error:
    with pytest.raises(errors.DataError) as info:
      built.task(kind, path, form.options)
    assert form.gives in str(info.value) and '\n' not in str(info.value)
    return
  task = built.task(kind, path, form.options)
  assert tuple(task.client_names) == form.clients
  if isinstance(form.gives, str):
    assert form.gives in task.about
    return
  reading = readings.Reading.by_options(kind, form.options)
  table = columnar.read(
      arrow_files.open_table(path, kind, reading.columns['client']), reading
  )
  found = table.x[:, 0].astype(np.float64) + table.columns[0].offset
  np.testing.assert_array_equal(found, form.gives)


def test_scaled_seconds_keep_their_differences(tmp_path):
  """Float32 has 128 seconds between two numbers of this size."""
  kind, path = _write(tmp_path, FORMS['seconds since 1970'])
  task = built.task(kind, path, train_fraction=0.5)
  [first, second] = [
      np.sort(np.concatenate([
          part[client]['examples']['x'][:, 0] for part in (task.train, task.test)
      ])) for client in range(2)
  ]
  steps = np.diff([*first, *second])
  np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
  assert steps[0] > 0.1
