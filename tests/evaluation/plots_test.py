"""Figures are made, complete, and repeatable."""

import numpy as np
import pytest

from tests.evaluation import made_runs
from tff_pers.evaluation import plots


@pytest.mark.parametrize('regression', [False, True])
def test_every_figure_is_png_and_svg(tmp_path, regression):
  runs = [made_runs.run('perm', s, regression) for s in (0, 1)] + [
      made_runs.run('fedavg', 0, regression)
  ]
  made = plots.plot_runs(runs, str(tmp_path))
  made += [
      plots.plot_mixing(runs[0], str(tmp_path)),
      plots.plot_data(runs[0], str(tmp_path)),
      plots.plot_router(runs[0], str(tmp_path)),
  ]
  assert [path.rsplit('/', 1)[1] for path in made] == [
      'curves', 'costs', 'clients', 'clusters', 'parameters', 'mixing', 'data',
      'router',
  ]
  for path in made:
    with open(path + '.png', 'rb') as file:
      assert file.read(8) == b'\x89PNG\r\n\x1a\n'
    with open(path + '.svg', encoding='utf-8') as file:
      assert '</svg>' in file.read()


def test_rows_of_models_without_owners_keep_their_order(saved):
  """Three models of six clients, whose groups are [1, 0, 1, 0, 2, 2]."""
  run = made_runs.run('perm', 0)
  shared = run._replace(
      mixing=run.mixing[:3], metrics=dict(run.metrics, models_used=np.ones(4))
  )
  for each in (run, shared):
    plots.plot_mixing(each, '')
  plots.plot_router(run._replace(class_names=['no', 'yes', 'so']), '')
  plots.plot_data(run._replace(class_names=list('abcdefghij')), '')
  ticks = [
      [label.get_text() for label in p.axes[0].get_xticklabels()]
      for p in saved[2:]
  ]
  # Adaptors have no names; those of classes are under the classes.
  assert 'yes' not in ticks[0] and ticks[1] == list('abcdefghij')
  order = [1, 3, 0, 2, 4, 5]
  images = [np.asarray(p.axes[0].images[0].get_array()) for p in saved]
  np.testing.assert_array_equal(images[0], run.mixing[np.ix_(order, order)])
  np.testing.assert_array_equal(images[1], run.mixing[:3][:, order])
  # Lines between the groups: of rows and columns, or of columns alone.
  assert [len(p.axes[0].lines) for p in saved[:2]] == [4, 2]
  assert saved[1].axes[0].get_ylabel() == 'Model'


def test_figures_of_nothing_are_left_out(tmp_path):
  """No clusters to recover, no method with extra parameters, one variant."""
  runs = [made_runs.run('fedavg', 0), made_runs.run('fedavg', 1)]
  made = plots.plot_runs(runs, str(tmp_path))
  assert [path.rsplit('/', 1)[1] for path in made] == ['curves', 'clients']


def test_extra_parameters_are_relative_to_the_model():
  extra = plots._extra_parameters  # pylint: disable=protected-access
  assert extra(made_runs.run('perm', 0)) == 0.5
  assert extra(made_runs.run('fedavg', 0)) == 0
  assert extra(made_runs.run('unknown', 0)) is None
