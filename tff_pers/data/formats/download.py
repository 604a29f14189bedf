"""Downloads a compressed file once, with progress, checksum and resume."""

import base64
import contextlib
import hashlib
import http.client
import lzma
import os
from typing import Any, Iterator
import urllib.error
import urllib.request

from absl import logging
import tqdm

from tff_pers.core import locks
from tff_pers.data import errors

_CHUNK = 2**20
_SECONDS = 30.0
# Errors when opening and reading an address.
_UNREACHABLE = (
    OSError, urllib.error.URLError, http.client.HTTPException, ValueError
)


def cache_folder() -> str:
  """Returns the folder in which TFF caches downloads."""
  return os.path.join(os.path.expanduser('~'), '.tff')


def fetch(url: str, folder: str) -> str:
  """Returns the path of the decompressed .lzma file; downloads it if necessary.

  An interrupted download is kept in a .part file, and the next attempt resumes
  it. The whole file is compared with the server's MD5 sum, and with the sums in
  the compressed file. If several processes need it, one downloads it; the
  others wait and use its file. The folder is created if necessary.

  Raises:
    errors.DataError: If it cannot be downloaded or written, or differs from
      what was sent.
  """
  name = url.rsplit('/', 1)[-1]
  target = os.path.join(folder, os.path.splitext(name)[0])
  packed = os.path.join(folder, name)
  is_new = not os.path.exists(folder)
  try:
    os.makedirs(folder, exist_ok=True)
    with _alone(folder):
      if os.path.exists(target):
        return target
      if not os.path.exists(packed):
        _download(url, packed)
  except errors.DataError:  # Has its sentence already; is a ValueError, too.
    raise
  except _UNREACHABLE as error:
    if is_new:
      with contextlib.suppress(OSError):  # Only removes an empty folder.
        os.rmdir(folder)
    raise errors.DataError(
        f'{url} could not be downloaded to {folder}'
        f' ({errors.first_line(error)}). Tip: run it again to resume the'
        ' download, or get its files elsewhere and name their folder with'
        ' --data_dir.'
    ) from error
  unpack(packed, target, 'remove it, and it is downloaded again.')
  with contextlib.suppress(FileNotFoundError):  # Another process was faster.
    os.remove(packed)
  return target


def unpack(packed: str, target: str, tip: str = 'download it again.') -> None:
  """Decompresses an .lzma file unless `target`, in the same folder, exists.

  A truncated file leaves no `target`. If several processes need it, one
  decompresses it; the others wait and use its file.

  Raises:
    errors.DataError: If the file is damaged, or cannot be decompressed there.
  """
  try:
    with _alone(os.path.dirname(packed)):
      if not os.path.exists(target):
        _unpack(packed, target)
  except (lzma.LZMAError, EOFError) as error:
    raise errors.DataError(
        f'{packed} must be a whole .lzma file, found a damaged one'
        f' ({errors.first_line(error)}). Tip: {tip}'
    ) from error
  except OSError as error:
    raise errors.DataError(
        f'{packed} could not be decompressed to {target}'
        f' ({errors.first_line(error)}). Tip: make room, or decompress it'
        ' elsewhere and name that folder with --data_dir.'
    ) from error


def _unpack(packed: str, target: str) -> None:
  part = f'{target}.part'
  try:
    with lzma.open(packed) as source, open(part, 'wb') as out:
      _copy(source, out, f'Unpacking {os.path.basename(packed)}')
    os.replace(part, target)
  finally:
    with contextlib.suppress(FileNotFoundError):
      os.remove(part)


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
  """Waits until no other process downloads or decompresses in the folder."""
  lock: Any = locks.attempt(folder)
  if lock is None:
    logging.warning(
        'Another process downloads or decompresses a file in %s: waiting for'
        ' it.',
        folder,
    )
    lock = locks.held(folder)
  with lock:
    yield


def _download(url: str, path: str) -> None:
  """Downloads a file, resuming an earlier attempt."""
  part = f'{path}.part'
  done = os.path.getsize(part) if os.path.exists(part) else 0
  request = urllib.request.Request(url)
  if done:
    request.add_header('Range', f'bytes={done}-')
  try:
    answer = urllib.request.urlopen(request, timeout=_SECONDS)
  except urllib.error.HTTPError as error:
    if not done or error.code != 416:  # 416: there is nothing left to send.
      raise
    # Without its checksum, this may or may not be the whole file.
    os.remove(part)
    _download(url, path)
    return
  with answer:
    if answer.status != 206:  # The server sends the whole file.
      done = 0
    length = answer.headers.get('Content-Length')
    total = done + int(length) if length else None
    with open(part, 'ab' if done else 'wb') as out:
      text = f'Downloading {os.path.basename(path)}'
      _copy(answer, out, text, done, total)
    expected = _md5(answer.headers)
  size = os.path.getsize(part)
  if total is not None and size < total:
    raise OSError(f'{size} of {total} bytes came')
  _check_sum(url, part, expected)
  os.replace(part, path)


def _md5(headers) -> str:
  """Returns the MD5 sum that the server states, in hexadecimal, or ''."""
  for entry in ','.join(headers.get_all('x-goog-hash') or ()).split(','):
    kind, _, value = entry.strip().partition('=')
    if kind == 'md5':
      return base64.b64decode(value).hex()
  return ''


def _check_sum(url: str, part: str, expected: str) -> None:
  """Removes a file that differs from what the server sent, and raises."""
  if not expected:
    return
  found = hashlib.md5()
  with open(part, 'rb') as file:
    for chunk in iter(lambda: file.read(_CHUNK), b''):
      found.update(chunk)
  if found.hexdigest() != expected:
    os.remove(part)
    raise errors.DataError(
        f'{url} must have the MD5 sum {expected}, found {found.hexdigest()} in'
        ' the downloaded file, which is removed. Tip: run it again.'
    )


def _copy(source, out, text: str, done: int = 0, total=None) -> None:
  """Copies the rest of a file, with a bar."""
  with tqdm.tqdm(
      desc=text, initial=done, total=total, unit='B', unit_scale=True
  ) as bar:
    for chunk in iter(lambda: source.read(_CHUNK), b''):
      out.write(chunk)
      bar.update(len(chunk))
