"""`quiet`: what is kept from the terminal, and what is not."""

import logging
import sys

from tff_pers.experiments import quiet


def _warnings(caplog):
  return [record.getMessage() for record in caplog.records]


def test_a_silence_keeps_output_and_warnings_back_and_ends(capsys, caplog):
  logger = logging.getLogger('absl')
  logger.addHandler(caplog.handler)
  try:
    with quiet.silence():
      print('one')
      print('two', file=sys.stderr)
      logger.warning('three')
      logger.error('four')
    logger.warning('five')
  finally:
    logger.removeHandler(caplog.handler)
  print('six')
  shown = capsys.readouterr()
  assert shown.out == 'six\n' and 'two' in shown.err
  assert 'three' not in _warnings(caplog)
  assert {'four', 'five'} <= set(_warnings(caplog))


def test_a_silence_inside_does_not_end_the_quiet_around_it(capsys):
  with quiet.scope():
    quiet.begin()
    assert quiet.is_begun()
    with quiet.silence():
      print('one')
    print('two')
    print('three')
    assert quiet.is_begun()
  assert not quiet.is_begun()
  assert capsys.readouterr().out == 'three\n'
