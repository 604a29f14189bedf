"""Files are written whole or not at all."""

import os
import pathlib

import pytest

from tff_pers.core import files
from tff_pers.evaluation import results


@pytest.mark.parametrize('mode, text', [('w', 'ü\r\n'), ('wb', b'\x00\n')])
def test_a_file_is_what_it_was_until_it_is_whole(mode, text, tmp_path):
  path = tmp_path / 'results'
  path.write_bytes(b'old')
  with files.whole(str(path), mode) as file:
    file.write(text)
    file.flush()
    assert path.read_bytes() == b'old'
  assert path.read_bytes() == (text if mode == 'wb' else text.encode())
  with pytest.raises(ZeroDivisionError), files.whole(str(path), mode) as file:
    file.write(text)
    _ = 1 / 0
  assert os.listdir(tmp_path) == ['results'] and len(path.read_bytes()) < 5


_TEXTS = {
    '=1+1': "'=1+1", '+cmd': "'+cmd", '-x': "'-x", '@SUM(A1)': "'@SUM(A1)",
    '\tx': "'\tx", '\rx': "'\rx", "'=x": "''=x", "''-x": "'" + "''-x",
    '-1_0': "'-1_0", '--1': "'--1", '-1': '-1', '+2.5': '+2.5', '-1e-5': '-1e-5',
    '-inf': '-inf', '+.5': '+.5', "'tis": "'tis", 'a=b': 'a=b', '': '',
}


def test_no_spreadsheet_takes_a_text_for_a_formula(tmp_path):
  """Our own readers have the texts again, of columns and of cells."""
  for text, cell in _TEXTS.items():
    assert files.to_cell(text) == cell and files.from_cell(cell) == text
  assert files.to_cell(-1.5) == -1.5 and files.to_cell(None) is None
  columns = ['client', *_TEXTS]
  rows = [dict(dict.fromkeys(columns, '2'), client=text) for text in _TEXTS]
  path = tmp_path / 'x.csv'
  results.write_csv(str(path), columns, rows)
  assert results.read_rows(str(tmp_path), 'x.csv') == rows
  lines = path.read_bytes().decode().split('\r\n')
  assert lines[0].startswith("client,'=1+1,'+cmd,'-x,'@SUM(A1),")
  assert lines[1].startswith("'=1+1,2,")


def test_one_function_writes_csv_files():
  """So that no text goes into one as it is."""
  root = pathlib.Path(__file__).resolve().parents[2]
  writers = [
      path.name for package in ('baselines', 'binaries', 'tff_pers')
      for path in (root / package).rglob('*.py')
      if any(word in path.read_text() for word in (
          'csv.writer(', 'DictWriter(', 'to_csv(', 'savetxt('
      ))
  ]
  # `client_names` writes a line of a flag, which is no file.
  assert sorted(writers) == ['client_names.py', 'results.py']
