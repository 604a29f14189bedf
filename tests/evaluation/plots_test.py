"""Figures are made, complete, and repeatable."""

import numpy as np
import pytest

from tff_pers.evaluation import plots
from tff_pers.evaluation import results


def _run(variant, seed, regression=False, num_clients=6):
  generator = np.random.default_rng(seed)
  accuracy = np.full(4, np.nan) if regression else np.linspace(0.1, 0.9, 4)
  return results.Run(
      folder='',
      config=dict(
          variant=variant, flags=dict(task='digits', partition='iid'),
          parameters=dict(
              model=100, client={'perm': 150, 'fedavg': 100}.get(variant)
          ),
      ),
      metrics=dict(
          **(
              dict(cluster_accuracy=np.array([0.5, np.nan, 1.0, 1.0]),
                   cluster_nmi=np.array([0.0, np.nan, 1.0, 1.0]))
              if variant == 'perm' else {}
          ),
          round=np.array([5.0, 10.0, 15.0, 18.0]),
          accuracy_mean=accuracy + 0.01 * seed,
          loss_mean=np.linspace(2.0, 1.0, 4),
          bytes_down=np.full(4, 0.0 if variant == 'local_only' else 40.0),
          bytes_up=np.full(4, 0.0 if variant == 'local_only' else 60.0),
      ),
      clients=dict(
          seen=np.ones(num_clients),
          accuracy=np.full(num_clients, np.nan) if regression
          else generator.random(num_clients),
          loss=generator.random(num_clients),
      ),
      class_counts=generator.integers(0, 9, [num_clients, 10]),
      groups=np.array([1, 0, 1, 0, 2, 2]),
      mixing=generator.dirichlet(np.ones(num_clients), num_clients),
      router=generator.dirichlet(np.ones(3), num_clients),
  )


@pytest.mark.parametrize('regression', [False, True])
def test_every_figure_is_png_and_svg(tmp_path, regression):
  runs = [_run('perm', s, regression) for s in (0, 1)] + [
      _run('fedavg', 0, regression)
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


def test_rows_of_models_without_owners_keep_their_order(monkeypatch):
  """Three models of six clients, whose groups are [1, 0, 1, 0, 2, 2]."""
  saved = []
  monkeypatch.setattr(
      plots.figures, 'save', lambda picture, *rest: saved.append(picture)
  )
  run = _run('perm', 0)
  shared = run._replace(
      mixing=run.mixing[:3], metrics=dict(run.metrics, models_used=np.ones(4))
  )
  for each in (run, shared):
    plots.plot_mixing(each, '')
  order = [1, 3, 0, 2, 4, 5]
  images = [np.asarray(p.axes[0].images[0].get_array()) for p in saved]
  np.testing.assert_array_equal(images[0], run.mixing[np.ix_(order, order)])
  np.testing.assert_array_equal(images[1], run.mixing[:3][:, order])
  # Lines between the groups: of rows and columns, or of columns alone.
  assert [len(p.axes[0].lines) for p in saved] == [4, 2]
  assert saved[1].axes[0].get_ylabel() == 'Model'


def test_costs_are_cumulative_and_what_sends_nothing_is_left_out(
    tmp_path, monkeypatch
):
  saved = []
  monkeypatch.setattr(
      plots.figures, 'save', lambda picture, *rest: saved.append(picture)
  )
  runs = [_run('perm', 0), _run('perm', 1), _run('local_only', 0)]
  for run in runs[:2]:  # Different numbers of examples: the mean over seeds.
    run.config['cost'] = dict(
        macs=1000.0, examples=3.0 + 2 * (run is runs[1])
    )
  plots.plot_costs(runs, str(tmp_path))
  sent, computed = saved[0].axes
  (line,), (other,) = sent.lines, computed.lines
  np.testing.assert_allclose(line.get_xdata(), [500, 1000, 1500, 1800])
  np.testing.assert_allclose(line.get_ydata(), np.linspace(0.1, 0.9, 4) + 0.005)
  np.testing.assert_allclose(
      other.get_xdata(), [20_000, 40_000, 60_000, 72_000]
  )
  assert sent.get_xscale() == 'log' and line.get_label() == 'perm'


def test_band_spans_the_seeds():
  rounds, values = plots._common_rounds(  # pylint: disable=protected-access
      [_run('perm', 0), _run('perm', 2)], 'accuracy_mean'
  )
  np.testing.assert_array_equal(rounds, [5, 10, 15, 18])
  np.testing.assert_allclose(values[1] - values[0], 0.02)


def test_clients_are_ordered_by_true_group():
  order, edges = plots._group_order(np.array([1, 0, 1, 0, 2, 2]), 6)  # pylint: disable=protected-access
  assert order.tolist() == [1, 3, 0, 2, 4, 5] and edges == [2, 4]
  order, edges = plots._group_order(np.array([1, -1]), 2)  # pylint: disable=protected-access
  assert order.tolist() == [0, 1] and edges == []


def test_figures_of_nothing_are_left_out(tmp_path):
  """No clusters to recover, no method with extra parameters, one variant."""
  runs = [_run('fedavg', 0), _run('fedavg', 1)]
  made = plots.plot_runs(runs, str(tmp_path))
  assert [path.rsplit('/', 1)[1] for path in made] == ['curves', 'clients']


def test_extra_parameters_are_relative_to_the_model():
  extra = plots._extra_parameters  # pylint: disable=protected-access
  assert extra(_run('perm', 0)) == 0.5
  assert extra(_run('fedavg', 0)) == 0
  assert extra(_run('unknown', 0)) is None
