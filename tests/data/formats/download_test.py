"""Tests of `download`, against a server on this machine."""

import base64
import functools
import hashlib
import http.server
import lzma
import threading

import numpy as np
import pytest

from tff_pers.core import locks
from tff_pers.data import errors
from tff_pers.data.formats import download

CONTENT = np.random.default_rng(0).bytes(300_000)
PACKED = lzma.compress(CONTENT)


class _Handler(http.server.BaseHTTPRequestHandler):
  """Sends `server.sent`, with ranges and the sum `server.md5`."""

  def do_GET(self):
    server, start = self.server, 0
    server.asked.append(self.headers.get('Range'))
    if self.headers.get('Range') and server.ranges:
      start = int(self.headers['Range'].split('=')[1].rstrip('-'))
    if start >= len(server.sent):
      self.send_error(416)
      return
    self.send_response(206 if start else 200)
    self.send_header('Content-Length', str(len(server.sent) - start))
    if server.md5:
      sum_ = base64.b64encode(bytes.fromhex(server.md5)).decode()
      self.send_header('x-goog-hash', 'crc32c=AAAAAA==')
      self.send_header('x-goog-hash', f'md5={sum_}')
    self.end_headers()
    end = len(server.sent) if server.cut is None else server.cut
    self.wfile.write(server.sent[start:end])

  def log_message(self, *args):
    pass


@pytest.fixture(name='server')
def fixture_server():
  server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
  server.sent, server.md5 = PACKED, hashlib.md5(PACKED).hexdigest()
  server.asked, server.cut, server.ranges = [], None, True
  thread = threading.Thread(target=server.serve_forever, daemon=True)
  thread.start()
  yield server
  server.shutdown()
  server.server_close()
  thread.join()


def _fetch(server, folder) -> bytes:
  url = f'http://127.0.0.1:{server.server_port}/data.sqlite.lzma'
  with open(download.fetch(url, str(folder)), 'rb') as file:
    return file.read()


def _names(folder):
  return sorted(path.name for path in folder.iterdir())


def test_a_file_is_fetched_once_and_unpacked(server, tmp_path):
  folder = tmp_path / 'new'
  for _ in range(2):
    assert _fetch(server, folder) == CONTENT
  assert server.asked == [None]
  assert _names(folder) == ['data.sqlite']


@pytest.mark.parametrize('ranges', [True, False])
def test_what_was_cut_short_goes_on(server, tmp_path, ranges):
  """Also where the server sends the whole file again."""
  server.cut, server.ranges = 100_000, ranges
  with pytest.raises(errors.DataError, match='100000 of 3.* bytes came.*again'):
    _fetch(server, tmp_path)
  assert _names(tmp_path) == ['data.sqlite.lzma.part']
  server.cut = None
  assert _fetch(server, tmp_path) == CONTENT
  assert server.asked == [None, 'bytes=100000-']
  assert _names(tmp_path) == ['data.sqlite']


def test_a_rest_of_nothing_is_fetched_anew(server, tmp_path):
  """The whole file is there, but its sum was never compared."""
  (tmp_path / 'data.sqlite.lzma.part').write_bytes(b'x' * len(PACKED))
  assert _fetch(server, tmp_path) == CONTENT
  assert server.asked == [f'bytes={len(PACKED)}-', None]


def test_a_wrong_sum_is_named_and_the_file_removed(server, tmp_path):
  server.md5 = hashlib.md5(b'another').hexdigest()
  with pytest.raises(
      errors.DataError, match=f'MD5 sum {server.md5}, found'
  ) as info:
    _fetch(server, tmp_path)
  assert 'could not be downloaded' not in str(info.value)
  assert not _names(tmp_path)


def test_a_damaged_file_is_named(server, tmp_path):
  server.sent, server.md5 = PACKED[:-100], ''
  with pytest.raises(errors.DataError, match='must be a whole .lzma file'):
    _fetch(server, tmp_path)
  assert _names(tmp_path) == ['data.sqlite.lzma']


def test_what_is_unpacked_stays(tmp_path):
  (tmp_path / 'a.lzma').write_bytes(PACKED)
  (tmp_path / 'a').write_bytes(b'whole')
  download.unpack(str(tmp_path / 'a.lzma'), str(tmp_path / 'a'))
  assert (tmp_path / 'a').read_bytes() == b'whole'


def test_where_nothing_can_be_written_is_named(tmp_path):
  (tmp_path / 'a.lzma').write_bytes(PACKED)
  (tmp_path / 'a.part').mkdir()  # Also for root, who may write anywhere.
  with pytest.raises(errors.DataError, match='a could not be.*--data_dir'):
    download.unpack(str(tmp_path / 'a.lzma'), str(tmp_path / 'a'))


def test_of_several_one_fetches_and_the_others_wait(server, tmp_path):
  found = []
  processes = [
      threading.Thread(target=lambda: found.append(_fetch(server, tmp_path)))
      for _ in range(3)
  ]
  with locks.held(str(tmp_path)):
    for process in processes:
      process.start()
    # Long enough to ask a server on this machine, if they did not wait.
    processes[0].join(timeout=0.3)
    assert not server.asked and not found
  for process in processes:
    process.join()
  assert found == [CONTENT] * 3
  assert server.asked == [None]
  assert _names(tmp_path) == ['data.sqlite']


def test_an_address_that_does_not_answer_is_named(server, tmp_path):
  folder = tmp_path / 'new'
  missing = functools.partial(download.fetch, folder=str(folder))
  server.sent = b''  # Answered with an error.
  port = server.server_port
  for url in (f'http://127.0.0.1:{port}/a.lzma', 'http://127.0.0.1:9/a.lzma'):
    with pytest.raises(errors.DataError, match='could not be downloaded.*Tip'):
      missing(url)
  assert not folder.exists()
