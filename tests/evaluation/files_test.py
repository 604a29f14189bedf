"""Files are written whole or not at all."""

import os

import pytest

from tff_pers.evaluation import files


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
