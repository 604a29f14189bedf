"""`--quiet`: errors and the last line."""

import sys

from absl import logging
import pytest

from binaries import flags
from binaries import quiet


def _main(*argv):
  """Runs a program that prints, and then fails if it is told to."""

  def main(argv):
    table = flags.all_flags(flags.own_flag('fails', False, 'Whether it fails.'))
    given = flags.parse(argv, table)
    print('one')
    print('two\nthree', end='')
    logging.warning('a warning')
    if given.get('fails'):
      raise flags.Failure('It failed.')
    print()
    return 0

  return flags.run('program', main, ['program', *argv])


def test_all_is_printed_without_it(capsys):
  assert _main() == 0
  assert capsys.readouterr().out == 'one\ntwo\nthree\n'


def test_only_the_last_line_is_printed(capsys):
  before = sys.stdout
  assert _main('--quiet') == 0
  found = capsys.readouterr()
  assert found.out == 'three\n' and 'a warning' not in found.err
  assert sys.stdout is before
  assert _main() == 0  # The next program is as it was.
  assert capsys.readouterr().out == 'one\ntwo\nthree\n'


def test_errors_stay_and_nothing_else(capsys):
  assert _main('--quiet', '--fails') == 1
  found = capsys.readouterr()
  assert found.out == '' and found.err == 'program: It failed.\n'


def test_an_empty_line_is_not_the_last(capsys):
  with quiet.scope():
    quiet.begin()
    print('last\n\n')
  assert capsys.readouterr().out == 'last\n'


def test_stdout_comes_back_after_an_error():
  before = sys.stdout
  with pytest.raises(KeyError):
    with quiet.scope():
      quiet.begin()
      raise KeyError
  assert sys.stdout is before
