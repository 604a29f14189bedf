"""`decision` and the sentences of its page: clear, within noise, simpler."""

import math

import numpy as np
import pytest

from tests.evaluation import made_runs
from tff_pers.evaluation import decision as decision_lib
from tff_pers.evaluation import decision_page
from tff_pers.evaluation import paired
from tff_pers.evaluation import results

# The differences to 0.5 of six clients; the standard error of (+, -) is known.
_BASE = np.array([0.4, 0.45, 0.5, 0.5, 0.55, 0.6])
_SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])


def _clients(values):
  return paired.Values({f'c{i}': float(v) for i, v in enumerate(values)})


def _decide(metric='accuracy', **methods):
  found = {name: _clients(values) for name, values in methods.items()}
  return decision_lib.decide(found, metric)


def _said(found, order, number=2):
  return decision_page.recommendation(
      found, order.split(), 'accuracy', number
  )


def test_a_clear_winner_is_recommended():
  found = _decide(local=_BASE, fedavg=_BASE - 0.1, perm=_BASE + 0.2)
  assert (found.algo, found.best, found.runner_up) == ('perm', 'perm', 'local')
  assert found.behind is None
  assert found.ahead.gain.mean == pytest.approx(0.2)
  assert not found.ahead.is_noise
  text = _said(found, 'local fedavg perm', 3)
  assert text.startswith('**perm** is recommended')
  assert 'better than the next one' in text and 'more than noise' in text
  assert 'local, by 0.2000 of accuracy (95 % interval 0.2000 to 0.2000' in text


@pytest.mark.parametrize('errors, algo', [(0.99, 'local'), (1.01, 'perm')])
def test_the_simplest_within_a_standard_error_is_recommended(errors, algo):
  """Six differences d +- 0.1: their standard error is 0.1 / sqrt(5)."""
  error = 0.1 / math.sqrt(5)
  found = _decide(
      local=_BASE, other=_BASE - 0.3,
      perm=_BASE + errors * error + 0.1 * _SIGNS,
  )
  assert (found.algo, found.best) == (algo, 'perm')
  text = _said(found, 'local other perm', 3)
  assert 'within noise' in text
  assert text.endswith(dict(
      local='local is simpler.',
      perm='local is simpler, but more than a standard error behind.',
  )[algo])


def test_who_is_simpler_is_told_by_the_order():
  """The first of them; one that is behind takes no part."""
  methods = dict(b=_BASE + 0.001, c=_BASE + 0.002 * _SIGNS, a=_BASE - 0.2)
  assert _decide(**methods).algo == 'b'
  assert _decide(**dict(reversed(methods.items()))).algo != 'a'


def test_a_simpler_best_is_said_to_be_simpler():
  found = _decide(local=_BASE + 0.01, perm=_BASE + 0.1 * _SIGNS)
  text = _said(found, 'local perm')
  assert text.startswith('**local** is recommended: it is the best')
  assert text.endswith('within noise; local is the simpler of the two.')


def test_methods_that_never_ran_are_not_beaten():
  found = _decide(local=_BASE, perm=_BASE + 0.2)
  assert _said(found, 'local fedavg ditto perm').startswith(
      'Of the 2 methods that finished (4 were requested), **perm** is'
  )


@pytest.mark.parametrize('validation, is_said', [
    (_BASE + 0.1, True), (_BASE, False), (_BASE - 0.1, False),
    (_BASE + 0.01 + 0.1 * _SIGNS, False),
])
def test_what_validation_promised_too_much_is_said(validation, is_said):
  found = dict(local=_method('local', _BASE, validation))
  text = decision_page.test_sentence(found, 'local', 'accuracy')
  assert ('On validation data it was better by 0.1000' in text) == is_said
  assert ('best of 3 trials there' in text) == is_said
  # One trial is no choice.
  single = dict(local=found['local']._replace(trials=1))
  text = decision_page.test_sentence(single, 'local', 'accuracy')
  assert ('more than noise: the test rows' in text) == is_said


def test_equal_methods_and_a_single_one():
  same = _decide(local=_BASE, perm=_BASE)
  assert same.algo == 'local'
  assert 'as good as the next one, perm, and simpler' in _said(
      same, 'local perm'
  )
  alone = _decide(perm=_BASE)
  assert (alone.algo, alone.ahead, alone.runner_up) == ('perm', None, None)
  assert 'no other method finished' in _said(alone, 'local perm', 1)


def test_of_losses_the_smallest_is_recommended():
  found = _decide('loss', local=_BASE, perm=_BASE - 0.2)
  assert found.algo == 'perm' and found.ahead.gain.mean == pytest.approx(0.2)
  assert decision_lib.ranked(
      dict(no=_clients([math.nan]), a=_clients([1.0]), b=_clients([0.5])), 'loss'
  ) == ['b', 'a', 'no']


def test_one_client_decides_without_an_interval():
  found = _decide(local=[0.5], perm=[0.6])
  assert found.algo == 'perm' and found.ahead.is_noise
  assert 'one client has no interval' in _said(found, 'local perm')


def test_no_method_is_an_error():
  with pytest.raises(ValueError, match='at least one method, found none'):
    decision_lib.decide({}, 'accuracy')


def _method(algo, test, validation=None):
  return decision_page.Method(
      algo, algo, 3, _clients(_BASE if validation is None else validation),
      _clients(test), 0.1, (0.0, 0.5), 2e6, 3.0,
  )


@pytest.mark.parametrize('test, words', [
    (_BASE - 0.1, 'No other method is better there.'),
    (_BASE + 0.1, 'best method there is perm, better by 0.1000 of accuracy'),
    (_BASE + 0.01 + 0.1 * _SIGNS, ': within noise.'),
    (_BASE + 0.2 + 0.01 * _SIGNS, ': more than noise.'),
])
def test_test_data_have_a_sentence_of_their_own(test, words):
  found = dict(local=_method('local', _BASE), perm=_method('perm', test))
  text = decision_page.test_sentence(found, 'local', 'accuracy')
  assert words in text
  assert 'an accuracy of 0.5000 (95 % interval 0.42' in text


def test_the_tables_are_of_test_data_and_marked_once():
  found = dict(
      local=_method('local', _BASE, _BASE + 0.3),
      perm=_method('perm', _BASE + 0.1 * _SIGNS + 0.02, _BASE),
  )
  order = ['local', 'perm']
  rows = decision_page.choice_rows(found, order, 'accuracy', 'local')
  assert [list(row) for row in rows] == [list(decision_page.COLUMNS)] * 2
  assert [row['recommended'] for row in rows] == [1, 0]
  assert rows[0]['accuracy_validation'] == pytest.approx(0.8)
  assert rows[0]['accuracy_test'] == pytest.approx(0.5)
  assert rows[0]['low'] < 0.5 < rows[0]['high']
  assert rows[1]['share_hurt_vs_local_only'] == 0.0
  assert rows[1]['share_hurt_vs_fedavg'] == 0.5
  first, second = decision_page.difference_rows(
      found, order, 'accuracy', 'local'
  )
  assert first['difference'] is None and first['p_value'] is None
  assert second['difference'] == pytest.approx(0.02)
  assert second['share_better'] == second['share_worse'] == 0.5
  assert second['bytes_per_client'] == 2_000_000 and second['trials'] == 3
  found['perm'] = found['perm']._replace(bytes_per_client=math.nan)
  unknown = decision_page.difference_rows(found, order, 'accuracy', 'local')[1]
  assert unknown['bytes_per_client'] is None


def test_costs_are_means_over_runs_of_other_lengths(tmp_path):
  """Runs of 2 and of 8 rounds; a round takes 2 seconds and sends 40 bytes."""
  runs = {}
  for seed, last in enumerate((2, 8)):
    folder = made_runs.write(
        str(tmp_path / f'seed{seed}'), seed=seed, evaluated=(1, last)
    )
    results.write_validation(folder, [
        dict(client=0, num_validation=1, accuracy=0.5, loss=1.0)
    ])
    runs['fedavg', seed] = results.read_run(folder)
  found = decision_page.methods(
      runs, dict(fedavg='fedavg'), dict(fedavg=1), 'accuracy'
  )['fedavg']
  assert (found.bytes_per_client, found.seconds) == (5 * 40, 5 * 2)
