"""Time that outlives a kill, and locks: who has what."""

import json

import pytest

from tff_pers.core import locks
from tff_pers.evaluation import damaged
from tff_pers.experiments import budgets
from tff_pers.experiments import flags
from tff_pers.experiments import studies


@pytest.mark.parametrize('text, seconds', [
    ('90s', 90), ('20m', 1200), ('1.5h', 5400), ('0.5s', 0.5), ('007m', 420),
])
def test_budgets_have_units(text, seconds):
  assert budgets.parse(text) == seconds


@pytest.mark.parametrize('text', [
    '', '20', '20x', '0m', '0.0h', '-5m', '20 m', 'm', '1e3s', '20m ', '.5h',
    'nan', 'infs', '20M', '20min',
])
def test_other_texts_are_refused(text):
  with pytest.raises(flags.UsageError, match='20m or 1.5h, found'):
    budgets.parse(text)


@pytest.mark.parametrize('seconds, text', [
    (0, '0:00'), (-3, '0:00'), (59.6, '1:00'), (750, '12:30'), (3723, '1:02:03'),
])
def test_times_are_written_as_people_read_them(seconds, text):
  assert budgets.as_text(seconds) == text


def test_a_clock_goes_on_where_it_was(tmp_path, monkeypatch):
  now = [100.0]
  monkeypatch.setattr(budgets, 'now', lambda: now[0])
  path = tmp_path / 'clock.json'
  with budgets.Clock(str(path)) as clock:
    now[0] += 30
    assert clock.seconds == 30 and clock.at(50) == 150
  assert json.loads(path.read_text())['seconds'] == 30
  now[0] = 7.0  # Of another start of the machine.
  with budgets.Clock(str(path)) as clock:
    now[0] += 5
    assert clock.seconds == 35 and clock.at(50) == 27


def test_a_clock_is_saved_while_it_runs(tmp_path, monkeypatch):
  """A kill, after which nobody could save it, costs little."""
  monkeypatch.setattr(budgets, '_SAVE_SECONDS', 0.01)
  path = tmp_path / 'clock.json'
  with budgets.Clock(str(path)) as clock:
    first = json.loads(path.read_text())['seconds']
    while json.loads(path.read_text())['seconds'] == first:
      assert clock.seconds < 60


@pytest.mark.parametrize('text', ['', '{', '[]', '{}', '{"seconds": "x"}'])
def test_a_damaged_clock_is_named(text, tmp_path):
  path = tmp_path / 'clock.json'
  path.write_text(text)
  with pytest.raises(damaged.DamagedError, match='clock.json'):
    budgets.Clock(str(path))


def test_a_lock_is_one_s_alone_until_it_is_released(tmp_path):
  lock = locks.attempt(str(tmp_path))
  assert locks.attempt(str(tmp_path)) is None
  lock.release()
  with locks.held(str(tmp_path)):
    assert locks.attempt(str(tmp_path)) is None
  locks.attempt(str(tmp_path)).release()


@pytest.mark.parametrize('text, left', [
    (b'', b''), (b'a\nb\n', b'a\nb\n'), (b'a\nb', b'a\n'), (b'a', b''),
])
def test_only_what_stands_behind_the_last_line_is_cut_off(text, left, tmp_path):
  path = tmp_path / 'journal'
  path.write_bytes(text)
  lock = studies.JournalLock(str(path))
  lock.acquire()
  assert path.read_bytes() == left
  lock.release()
  lock.acquire()
  lock.release()
