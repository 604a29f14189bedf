"""Files come in batches of columns, and rows have positions."""

import pyarrow as pa
from pyarrow import parquet

from tff_pers.data import arrow_files


def test_csv_comes_in_batches_as_it_is_written(tmp_path, monkeypatch):
  path = tmp_path / 'my.csv'
  lines = ''.join(f'{i},"x\n{i}", {i}.50\n\n' for i in range(20))
  path.write_text('a, b,c \n' + lines, encoding='utf-8')
  monkeypatch.setattr(arrow_files, '_BATCH_BYTES', 64)
  file = arrow_files.CsvFile(str(path))
  assert file.names == ['a', 'b', 'c'] and file.num_rows is None
  batches = list(file.batches())
  assert len(batches) > 3
  columns = [
      sum((batch[place].to_pylist() for batch in batches), [])
      for place in range(3)
  ]
  assert columns == [
      [str(i) for i in range(20)], [f'x\n{i}' for i in range(20)],
      [f' {i}.50' for i in range(20)],
  ]
  # An example is two lines, and an empty one follows; it ends in the second.
  assert [file.position(row) for row in (0, 1, 19)] == [
      'line 3', 'line 6', 'line 60'
  ]


def test_parquet_comes_in_batches_with_its_types(tmp_path, monkeypatch):
  path = str(tmp_path / 'my.parquet')
  table = pa.table({'a': list(range(7)), ' b ': [0.5] * 7})
  parquet.write_table(table, path, row_group_size=4)
  monkeypatch.setattr(arrow_files, '_BATCH_ROWS', 3)
  file = arrow_files.ParquetFile(path)
  assert file.names == ['a', 'b'] and file.num_rows == 7
  batches = list(file.batches())
  assert len(batches) >= 3
  assert sum((batch[0].to_pylist() for batch in batches), []) == list(range(7))
  assert batches[0][1].type == pa.float64()
  assert file.position(3) == 'row 3'
