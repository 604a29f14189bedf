"""Files of columns become tables, and every bad one is refused in a sentence."""

import csv
import gzip

import hypothesis
from hypothesis import strategies
import numpy as np
import pyarrow as pa
from pyarrow import parquet
import pytest

from tff_pers.data import arrow_files
from tff_pers.data import cells
from tff_pers.data import columnar
from tff_pers.data import errors
from tff_pers.data import readings

_ALL = readings.Reading('csv', missing=True, texts=True)


def _csv(tmp_path, text):
  path = tmp_path / 'my.csv'
  path.write_text(text, encoding='utf-8')
  return str(path)


def _read(path, reading=readings.Reading('csv')):
  return columnar.read(arrow_files.CsvFile(path), reading)


def _parquet(tmp_path, **columns):
  path = str(tmp_path / 'my.parquet')
  parquet.write_table(pa.table(columns), path, row_group_size=2)
  return path


def _read_parquet(path, **reading):
  return columnar.read(
      arrow_files.ParquetFile(path), readings.Reading('parquet', **reading)
  )


@pytest.fixture(name='small_batches', params=[1 << 22, 32])
def _small_batches(request, monkeypatch):
  """The whole file at once, and a row or two at a time."""
  monkeypatch.setattr(arrow_files, '_BATCH_BYTES', request.param)


@pytest.mark.usefixtures('small_batches')
def test_columns_are_found_by_name_and_sorted_clients_have_codes(tmp_path):
  text = (
      '\ufeffy, a ,client,split,b,tier\n0.5,1,"x, y",train,1e3,2\n\n'
      '1.5, 2 ,"x, y",test,+.5,2\n1, 3.,a,0,-4,0\n'
  )
  table = _read(_csv(tmp_path, text))
  assert table.x.dtype == np.float32
  np.testing.assert_array_equal(table.x, [[1, 1000], [2, 0.5], [3, -4]])
  np.testing.assert_array_equal(table.y, [0.5, 1.5, 1.0])
  assert table.y.dtype == np.float64 and table.classes is None
  assert table.names.tolist() == ['a', 'x, y']
  np.testing.assert_array_equal(table.client, [1, 1, 0])
  np.testing.assert_array_equal(table.is_test, [False, True, False])
  np.testing.assert_array_equal(table.tier, [2, 2, 0])
  assert [column.name for column in table.columns] == ['a', 'b']
  assert table.place(2) == 'line 5 of client a'


@pytest.mark.usefixtures('small_batches')
def test_texts_have_codes_and_what_is_missing_is_nan(tmp_path):
  """Column c looks like numbers first; then 1.0 and 1 are two texts."""
  text = (
      'client,y,a,b,c\nk,0,1,red,1.0\nk,1,?,,1\nk,0,,blue,x\nk,1,NA,red,null\n'
  )
  table = _read(_csv(tmp_path, text), _ALL)
  assert [column.categories for column in table.columns] == [
      None, ('red', 'blue'), ('1.0', '1', 'x')
  ]
  nan = np.nan
  np.testing.assert_array_equal(
      table.x,
      [[1, 0, 0], [nan, nan, 1], [nan, 1, 2], [nan, 0, nan]],
  )


def test_without_y_all_are_zero_where_it_is_not_needed(tmp_path):
  reading = readings.Reading('csv', needs=('client',))
  table = _read(_csv(tmp_path, 'client,a\nk,1\nk,2\n'), reading)
  np.testing.assert_array_equal(table.y, [0, 0])


_CELLS = strategies.one_of(
    strategies.floats(-1e9, 1e9).map(repr), strategies.integers(-9, 9).map(str),
    strategies.sampled_from(
        ['', ' ', '?', 'NaN', 'na', 'True', 'x', 'a,b', 'say "x"', ' 7 ', '+3',
         '01', '1_0', 'none', 'two\nlines']
    ),
)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(
    # With more, a text among numbers would be taken for a typing error.
    rows=strategies.lists(
        strategies.tuples(_CELLS, _CELLS), min_size=1, max_size=10
    ),
    size=strategies.sampled_from([64, 1 << 20]),
)
def test_any_cells_are_read_as_one_by_one(tmp_path_factory, rows, size):
  """Against the cells that Python's own reader finds in the file."""
  path = str(tmp_path_factory.mktemp('cells') / 'my.csv')
  with open(path, 'w', encoding='utf-8', newline='') as file:
    writer = csv.writer(file)
    writer.writerows([('client', 'y', 'a', 'b'), *[('k', 0, *r) for r in rows]])
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(arrow_files, '_BATCH_BYTES', size)
    table = _read(path, _ALL)
  for number, column in enumerate(table.columns):
    texts = [row[number].strip() for row in rows]
    expected = [cells.number(text) for text in texts]
    if column.categories is None:
      found = table.x[:, number].astype(np.float64) + column.offset
      np.testing.assert_allclose(
          found, expected, rtol=1e-7, atol=6e-8 * abs(column.offset) + 1e-45
      )
      continue
    assert None in expected
    found = [
        '' if np.isnan(code) else column.categories[int(code)]
        for code in table.x[:, number]
    ]
    assert found == [
        '' if text.lower() in cells.MISSING else text for text in texts
    ]


def test_parquet_holds_types(tmp_path):
  path = _parquet(
      tmp_path, client=[14, 14, 9], y=[1, 0, 1], split=[0, 1, 0],
      a=pa.array([1.5, None, 2.0]), b=[True, False, True],
      c=pa.array(['u', 'v', None]).dictionary_encode(),
      d=pa.array([1, 2, 3], pa.int8()), e=pa.nulls(3),
  )
  table = _read_parquet(path, missing=True, texts=True)
  assert table.names.tolist() == [9, 14]
  np.testing.assert_array_equal(table.client, [1, 1, 0])
  assert table.y.dtype == np.int64
  np.testing.assert_array_equal(table.is_test, [False, True, False])
  nan = np.nan
  np.testing.assert_array_equal(table.x, [
      [1.5, 1, 0, 1, nan], [nan, 0, 1, 2, nan], [2, 1, nan, 3, nan]
  ])
  assert table.columns[2].categories == ('u', 'v')
  assert table.place(2) == 'row 2 of client 9'


def test_parquet_targets_and_classes(tmp_path):
  columns = dict(client=['k'] * 3, a=[1, 2, 3])
  read = lambda y: _read_parquet(_parquet(tmp_path, y=y, **columns))
  assert read([0.0, 1.0, 1.0]).spelling == ('0.0', '1.0')
  assert read([0.5, 1.0, 1.0]).y.dtype == np.float64
  table = read([True, False, True])
  assert table.y.tolist() == [1, 0, 1] and table.spelling == ('False', 'True')
  assert read(['b', 'a', 'b']).classes == ('a', 'b')


@pytest.mark.parametrize('before', [
    [], [None] * 4, [0.0] * 4, [None, 0.0] * 2, [1.7e9] * 4,
])
def test_times_keep_their_differences(before, tmp_path, monkeypatch):
  """Whatever the first batches hold."""
  monkeypatch.setattr(arrow_files, '_BATCH_ROWS', 3)
  values = before + [1.7e9 + 7 * row for row in range(9)]
  count = len(values)
  table = _read_parquet(_parquet(
      tmp_path, client=['k'] * count, y=[0] * count,
      a=pa.array(values, pa.float64()),
  ), missing=True)
  found = table.x[:, 0].astype(np.float64) + table.columns[0].offset
  np.testing.assert_array_equal(found, np.array(values, np.float64))


def test_minutes_of_dates_keep_their_differences(tmp_path):
  rows = ''.join(f'k,0,2024-01-31 10:{row:02}\n' for row in range(40))
  table = _read(
      _csv(tmp_path, 'client,y,a\n' + rows),
      readings.Reading('csv', date_columns=frozenset('a')),
  )
  np.testing.assert_allclose(np.diff(table.x[:, 3]), 1 / 1440, rtol=1e-4)


_BAD = [
    (
        '', 'must have the columns client, y and features, found no client among'
        ' none. Tip: --csv_client_column names another column.$',
    ),
    (
        'client,a\n1,2\n',
        'no y among client, a. Tip: --csv_label_column names another column.$',
    ),
    ('client,y,split\n1,2,test\n', 'at least one column of features'),
    ('client,y,a\n\n\n', 'at least one example, found none'),
    (
        ',client,y,a\n0,k,1,2\n',
        r'found column 1 without a name. Tip: .* to_csv\(..., index=False\)',
    ),
    (
        'client,y,a,Unnamed: 0\nk,1,2,0\n',
        r'column 4 without a name \(Unnamed: 0\). Tip: if it counts the rows',
    ),
    (
        'client,y,a\n"x\ny",0,2\n\n7,1,2,3\n',
        r'3 values in every line, found 4 in line 5 \(client 7\)',
    ),
    ('a,y,client\n1\n', r'found 1 in line 2 \(client unknown\)'),
    (
        'client,y,a\n,0,2\nk,0,2\n,0,2\n,0,2\n', 'must name the client .* none'
        ' in line 2 and 2 others. Tip: give them a client, or remove these lines.$',
    ),
    ('client,y,a\nk,0,2\n"a\tb",0,2\n', 'names of clients must'),
    (
        'client,y,a\nbob,0,two\n',
        "a must be a number in every line, found 'two' at client bob in line 2."
        ' Tip: --csv_categories=one_hot',
    ),
    (
        'client,y,a\nbob,0,1\nbob,0,\n',
        "a must be a number in every line, found '' at client bob in line 3."
        ' Tip: --csv_missing=mean',
    ),
    (
        'client,y,a\nbob,0,1e300\n',
        r"a must be finite \(float32\) .* found '1e300' at client bob in line 2",
    ),
    (
        'client,y,a\nbob,0,1\nbob,cat,1\n',
        "y must be a number .*'cat' at client bob in line 3",
    ),
    (
        'client,y,a\nbob,cat,1\nbob,5,1\n',
        "y must be a number .*'cat' at client bob in line 2",
    ),
    ('client,y,a\nbob,,1\nbob,?,1\n', 'must hold y for at least one example'),
    (
        'client,y,a,split\nbob,0,1,dev\n',
        "split must .*'dev' at client bob in line 2",
    ),
    (
        'client,y,a,tier\nbob,0,1,1\nbob,0,1,2\n',
        'tier must be the same .* 1 and 2 at client bob in line 3',
    ),
    (
        'client,y,a,tier\nbob,0,1,low\n',
        "tier must be an integer >= 0 .* 'low' at client bob in line 2",
    ),
]


@pytest.mark.parametrize('text, message', _BAD)
def test_raises_on_bad_csv_and_names_file_and_line(tmp_path, text, message):
  path = _csv(tmp_path, text)
  with pytest.raises(errors.DataError, match=message) as info:
    _read(path)
  assert path in str(info.value)
  assert '\n' not in str(info.value)


def test_what_needs_another_flag_is_said_at_once(tmp_path):
  """Two columns that need the same flag, once."""
  path = _csv(tmp_path, (
      'client,y,town,day,a,b,street\n'
      'k,0,rome,2024-01-31,1,,x\nk,1,oslo,2024-02-29,,2,y\n'
  ))
  with pytest.raises(errors.DataError) as info:
    _read(path)
  assert str(info.value) == (
      f"{path}: town must be a number in every line, found 'rome' at client k in"
      " line 2. Tip: --csv_categories=one_hot makes numbers of texts. Also: day"
      " must be a number in every line, found '2024-01-31' at client k in line 2."
      " Tip: --csv_dates=day makes year, month, weekday and days of dates. Also:"
      " a must be a number in every line, found '' at client k in line 3. Tip:"
      " --csv_missing=mean fills in what is missing."
  )


@pytest.mark.parametrize('missing, fills', [
    (False, ', and --csv_missing=mean fills in what is missing'), (True, ''),
])
def test_gaps_among_texts_are_said_with_them(tmp_path, missing, fills):
  path = _csv(tmp_path, 'client,y,town\nk,0,rome\nk,1,\n')
  with pytest.raises(errors.DataError, match=f'numbers of texts{fills}.$'):
    _read(path, readings.Reading('csv', missing=missing))


def test_raises_on_texts_that_are_no_categories(tmp_path, monkeypatch):
  monkeypatch.setattr(columnar, 'MAX_CATEGORIES', 3)
  rows = ''.join(f'k,0,n{i}\n' for i in range(4))
  with pytest.raises(errors.DataError, match='a must have at most 3 distinct'):
    _read(_csv(tmp_path, 'client,y,a\n' + rows), _ALL)


@pytest.mark.parametrize('name, content', [
    ('my.csv', b'\xff\xfe\x00client'),
    ('my.csv', b'client,y,a\nk,0,1\n\x81,0,1\n'),
    ('my.csv.gz', gzip.compress(b'client,y,a\nk,0,1\n', mtime=0)[:-9]),
])
def test_raises_on_csv_that_is_no_text(tmp_path, name, content):
  path = tmp_path / name
  path.write_bytes(content)
  with pytest.raises(errors.DataError, match='readable CSV file, found'):
    _read(str(path))


@pytest.mark.parametrize('columns, message', [
    (dict(a=[1.0, None]), "a must be a number .*'' at client k in row 1. Tip: "
     '--parquet_missing=mean'),
    (dict(a=[1.0, np.inf]), "must be finite .*'inf' at client k in row 1"),
    (dict(a=[[1], [2]]), r'a must be numbers or texts, found list<.*Tip'),
    (dict(client=[0.5, 1.0]), 'client must be integers or texts, .* double'),
    (dict(client=['k', None]), 'must name the client in every row, .* in row 1'),
    (dict(__index_level_0__=[3, 4]), r'to_parquet\(..., index=False\)'),
])
def test_raises_on_bad_parquet_and_names_the_row(tmp_path, columns, message):
  path = _parquet(tmp_path, **dict(
      dict(client=['k', 'k'], y=[0, 1], a=[1.0, 2.0]), **columns
  ))
  with pytest.raises(errors.DataError, match=message) as info:
    _read_parquet(path)
  assert path in str(info.value) and '\n' not in str(info.value)


@pytest.mark.parametrize('keep', [0.0, 0.99])
def test_raises_on_truncated_parquet(tmp_path, keep):
  path = tmp_path / 'my.parquet'
  _parquet(tmp_path, client=['k'] * 99, y=[0, 1, 2] * 33, a=range(99))
  content = path.read_bytes()
  path.write_bytes(content[:int(keep * len(content))])
  with pytest.raises(errors.DataError, match='must be a complete Parquet'):
    _read_parquet(str(path))
