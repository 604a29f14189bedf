"""The page in a browser: it draws, sorts, and no script fails."""

import numpy as np
import pytest

from tests.evaluation.report import browser
from tests.evaluation.report import made_pages
from tff_pers.evaluation import comparison
from tff_pers.evaluation.report import page


@pytest.fixture(scope='module', name='looked')
def _looked(tmp_path_factory):
  folder = tmp_path_factory.mktemp('page')
  return browser.look(folder, page.render(made_pages.collected(folder)))


@pytest.fixture(name='seen')
def _seen(looked):
  return looked[0]


def test_no_script_fails(looked):
  assert looked[1] == []


def test_names_are_texts(seen):
  assert seen['hacked'] == 0 and seen['title'] == made_pages.EVIL
  assert made_pages.EVIL in seen['clients'][0][1]


def test_a_table_is_sorted_by_a_click(seen):
  evil = made_pages.EVIL
  best_first = ['perm', 'local_only', evil]
  assert seen['accuracy'] == [
      ['descending', best_first], ['ascending', best_first[::-1]],
      ['descending', best_first],
  ]


def test_names_with_numbers_are_sorted_as_one_counts(seen):
  names = [made_pages.EVIL, 'ann', 'client 9', 'client 10']
  assert seen['clients'][1] == ['ascending', names]
  assert seen['clients'][2] == ['descending', names[::-1]]


def test_numbers_are_sorted_by_size_and_what_is_none_is_last(seen):
  assert seen['mixed'] == [
      [-1], [9], [10], [100], ['nan'], [None],
      [100], [10], [9], [-1], ['nan'], [None],
  ]


def test_clients_have_means_over_seeds(seen):
  rows = {row[0]: row[1:] for row in seen['clientCells']}
  assert rows['client 9'] == ['10', 'yes', '0.7500', '0.7000', '0.4000']
  assert rows['client 10'][1] == 'some seeds'


def test_who_is_hurt_is_paired_by_client_and_seed(seen, tmp_path):
  """Client 10 does not train with seed 1; pairs are seven, or four."""
  evil = made_pages.EVIL[:20]
  hurt = dict(line.split(': ', 1) for line in seen['hurt'])
  # 0.1 and 0.1 less, 0.2 and 0 more; 0.4, 0.4 and -0.1 more.
  mean = (-0.1 + 0.1 + 0.2 + 0.0 + 0.4 + 0.4 - 0.1) / 7
  assert hurt['perm'] == (
      f'28.6 % hurt, mean +{mean:.4f}, worst −0.1000 (client ann)'
  )
  (other,) = [note for name, note in hurt.items() if name != 'perm']
  assert other == '100 % hurt, mean −0.2500, worst −0.4000 (client ann)'
  assert len(seen['hurtByPerm']) == 2 and evil in seen['hurtByPerm'][1]
  assert seen['hurtByPerm'][0].startswith('local_only: 57.1 % hurt')
  # The table has shares by seed, then their mean.
  runs = {(run.variant, run.config['flags']['seed']): run
          for run in made_pages.runs(tmp_path)}
  rows = {row['algo']: row for row in comparison.summary_rows(runs)}
  assert rows['perm']['share_hurt_vs_local'] == np.mean([1 / 4, 1 / 3])


def test_a_larger_loss_hurts(seen):
  assert seen['losses'] == '50 % hurt, mean −0.5000, worst −2 (client b)'


def test_test_and_validation_are_told_apart(seen):
  both, test, validation = (
      seen['parts'][part] for part in ('both', 'test', 'validation')
  )
  assert (both[0], both[1]) == (6, 3)
  assert (test[0], test[1]) == (3, 0)
  assert (validation[0], validation[1]) == (3, 3)
  perm = np.mean([0.55, 0.9])
  assert test[2][:2] == ['round 6', f'perm: {perm:.4f} (0.5500 to 0.9000)']
  assert validation[2][1] == (
      f'perm, validation: {perm - 0.3:.4f} (0.2500 to 0.6000)'
  )


def test_axes(seen):
  assert seen['ticks'] == ['2', '4', '6']
  assert seen['bytes'] and all(tick.endswith(' B') for tick in seen['bytes'])
  # Accuracy, loss, and the distance, which falls by four decades.
  assert seen['logs'] == [False, False, True]


def test_a_method_can_be_hidden(seen):
  assert seen['withoutPerm'] == 4


def test_the_map_has_the_cells_of_the_file_by_group(seen):
  order = [1, 3, 0, 2]
  expected = made_pages.MIXING[np.ix_(order, order)]
  np.testing.assert_allclose(seen['cells'], expected.ravel(), atol=2e-5)
  rows = made_pages.ORDERED
  assert seen['cell'] == [
      f'Owner of the model {rows[1]}', f'Source client {rows[0]}',
      'Mixing weight: 1',
  ]
  assert seen['nextCell'][2] == 'Mixing weight: 0.2500'
  assert seen['edges'] == 2


def test_the_page_is_not_wider_than_the_window(seen):
  assert seen['wide'] == 0


def test_every_client_is_a_spot(seen):
  """Three finals, 11 clients that train, and 7 or 4 differences to perm."""
  assert seen['spots'] == 3 + (4 + 3) * 2 + 4 + 7 + 4


def test_all_is_printed(seen):
  assert seen['folded'] == 0


def test_a_narrow_window_needs_no_sideways_scrolling(tmp_path):
  text = page.render(made_pages.collected(tmp_path))
  seen, errors = browser.look(tmp_path, text, width=500)
  assert not errors and seen['wide'] == 0
