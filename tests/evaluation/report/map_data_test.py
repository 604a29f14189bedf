"""Maps hold the matrices of a run, clients by group."""

import base64

import numpy as np
import pytest

from tests.evaluation import made_runs
from tff_pers.evaluation import results
from tff_pers.evaluation.report import map_data
from tff_pers.evaluation.report import members

GROUPS = np.array([1, 0, 1, 0])
ORDER = [1, 3, 0, 2]


def _member(tmp_path, **options):
  clients = {str(10 + i): 0.5 for i in range(options.pop('number', 4))}
  return members.Member(
      made_runs.read(tmp_path, 'perm', 3, clients=clients, **options), 'perm'
  )


def _decoded(made):
  steps = np.frombuffer(base64.b64decode(made['cells']), '<u2')
  table = steps.reshape(len(made['rows']['names']), -1)
  return np.where(table == 65535, np.nan, table / 65534 * made['largest'])


def _random(*shape):
  return np.random.default_rng(0).dirichlet(np.ones(shape[1]), shape[0])


def test_mixing_weights_are_those_of_the_file_by_group(tmp_path):
  mixing = _random(4, 4)
  found = map_data.of_group([_member(tmp_path, groups=GROUPS, mixing=mixing)])
  made, = found['maps']
  assert (made['kind'], made['label'], made['seed']) == ('mixing', 'perm', 3)
  np.testing.assert_allclose(
      _decoded(made), mixing[np.ix_(ORDER, ORDER)], atol=mixing.max() / 1e5
  )
  assert made['largest'] == pytest.approx(mixing.max(), rel=1e-6)
  assert made['rows'] == dict(
      title='Owner of the model', block=1, number=4, edges=[2], ordered=True,
      names=['1', '3', '0', '2'],
  )
  assert made['columns']['title'] == 'Source client'


def test_names_of_clients_are_those_of_the_data(tmp_path):
  member = _member(tmp_path, groups=GROUPS, mixing=_random(4, 4))
  run = member.run._replace(client_names=np.array(['ann', 'bob', 'cy', 'di']))
  (made,) = map_data.of_group([member._replace(run=run)])['maps']
  assert made['rows']['names'] == ['bob', 'di', 'ann', 'cy']
  assert made['columns']['names'] == ['bob', 'di', 'ann', 'cy']


def test_without_groups_clients_stay_in_order(tmp_path):
  mixing = _random(4, 4)
  (made,) = map_data.of_group([_member(tmp_path, mixing=mixing)])['maps']
  np.testing.assert_allclose(_decoded(made), mixing, atol=1e-5)
  assert made['rows']['names'] == ['0', '1', '2', '3']
  assert made['rows']['edges'] == [] and not made['rows']['ordered']


def test_models_of_clusters_have_no_owner(tmp_path):
  mixing = _random(2, 4)
  (made,) = map_data.of_group([_member(
      tmp_path, groups=GROUPS, mixing=mixing, columns=dict(models_used=[2] * 3)
  )])['maps']
  np.testing.assert_allclose(_decoded(made), mixing[:, ORDER], atol=1e-5)
  assert made['rows']['title'] == 'Model' and made['rows']['edges'] == []


def test_rows_of_byzantine_clients_are_not_known(tmp_path):
  router = _random(4, 3)
  router[2] = np.nan
  (made,) = map_data.of_group(
      [_member(tmp_path, groups=GROUPS, router=router)]
  )['maps']
  assert made['kind'] == 'router' and made['columns']['edges'] == []
  np.testing.assert_allclose(_decoded(made), router[ORDER], atol=1e-5)


def test_class_counts_are_a_map(tmp_path):
  member = _member(tmp_path)
  counts = np.array([[3, 0], [1, 1], [0, 2], [5, 5]])
  results.write_data(str(tmp_path), range(4), counts, GROUPS)
  run = results.read_run(str(tmp_path))
  (made,) = map_data.of_group([member._replace(run=run)])['maps']
  np.testing.assert_allclose(_decoded(made), counts[ORDER], atol=1e-3)


def test_many_clients_are_averaged_over_neighbours(tmp_path):
  """410 clients are 136 blocks of three and one of two."""
  number = 410
  mixing = np.random.default_rng(1).random([number, number])
  groups = np.repeat([0, 1], [30, 380])
  (made,) = map_data.of_group(
      [_member(tmp_path, number=number, groups=groups, mixing=mixing)]
  )['maps']
  found = _decoded(made)
  assert found.shape == (137, 137)
  assert found[2, 1] == pytest.approx(mixing[6:9, 3:6].mean(), abs=1e-4)
  assert found[-1, -1] == pytest.approx(mixing[408:, 408:].mean(), abs=1e-4)
  side = made['rows']
  assert (side['block'], side['number'], side['edges']) == (3, 410, [10])
  assert side['names'][0] == '0 … 2' and side['names'][-1] == '408 … 409'


def test_a_page_holds_a_million_cells(tmp_path, monkeypatch):
  monkeypatch.setattr(map_data, 'MAX_CELLS', 40)
  both = [
      _member(tmp_path / str(i), mixing=_random(4, 4)) for i in range(3)
  ]
  found = map_data.of_group(both)
  assert len(found['maps']) == 2 and found['left_out'] == 1
  assert map_data.summary(found).startswith('1 more maps are left out')
  assert map_data.summary(map_data.of_group(both[:1])) == ''
