"""Labels of tables that come after training."""

import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data import new_data
from tff_pers.data import tables


def _table(y, classes=None):
  size = len(y)
  return tables.Table(
      'later.csv', np.zeros([size, 1]), np.array(y), np.zeros(size, int),
      np.array(['ann']), None, classes=classes,
  )


@pytest.mark.parametrize('y, classes, expected', [
    ([1, -1, 1], ('-1', '1'), [1, 0, 1]),
    # Spelled otherwise, they are the same numbers.
    ([1.0, 0.0], ('False', 'True'), [1, 0]), ([900, 3], ('3', '900'), [1, 0]),
    ([10, 9, 2], ('10', '2', '9'), [0, 2, 1]), ([1, 0], None, [1, 0]),
])
def test_labels_are_those_of_training(y, classes, expected):
  found = new_data.labels(_table(y), len(classes or '01'), classes)
  assert found.tolist() == expected and found.dtype == np.int32


def test_names_are_found_by_name():
  table = _table([0, 1], classes=('b', 'a'))
  assert new_data.labels(table, 2, ('a', 'b')).tolist() == [1, 0]


@pytest.mark.parametrize('table, classes, sentence', [
    (_table([1, 2]), ('-1', '1'), 'one of -1, 1, .* found 2 in row 1 of'),
    (_table([1]), ('no', 'yes'), 'names of classes as in the training data'),
    (_table([0], ('a',)), None, 'numbers as in the training data'),
    (_table([0], ('c',)), ('a', 'b'), "one of a, b, .* found 'c'.$"),
    (_table([0], ('Yes',)), ('no', 'yes'), "found 'Yes'. Tip: 'yes'.$"),
])
def test_other_labels_are_refused(table, classes, sentence):
  with pytest.raises(errors.DataError, match=sentence):
    new_data.labels(table, 2, classes)


_FITTED = features.Features((
    features.Feature('age', 50.0, 10.0, False),
    features.Feature('time', 1.7e9, 3600.0, False),
    features.Feature('same', 3.0, 0.0, False),
    features.Feature('town', 0.0, 1.0, False, ('oslo', 'rome')),
), True, reading=dict(missing='mean', client_column='who'))


def _read(tmp_path, *rows, fitted=_FITTED, header='who,town,time,same,age,note'):
  (tmp_path / 'later.csv').write_text('\n'.join([header, *rows]) + '\n')
  return new_data.read(
      str(tmp_path / 'later.csv'), fitted, [len(fitted.outputs)], ('client',)
  )


def test_rows_like_those_of_training_need_no_remark(tmp_path):
  """Other columns may hold anything; those of training come in any order."""
  table = _read(tmp_path, 'ann,rome,1700000036,3,60,x', 'bob,oslo,1.7e9,3,40,')
  assert table.remarks == ()
  np.testing.assert_allclose(
      table.x, [[1, 0.01, 0, 0, 1], [-1, 0, 0, 1, 0]], rtol=1e-6
  )
  assert table.names.tolist() == ['ann', 'bob']


def test_what_is_not_as_in_training_is_said(tmp_path):
  table = _read(tmp_path, 'ann,rome,0,4,,', 'ann,Rome,0,4,600,')
  texts, gaps, moved = table.remarks
  assert 'has no value in 1 row of age, where' in gaps
  assert (
      'deviations, age from 50 to 600, time from 1.7e+09 to 0, same from 3 to 4.'
  ) in moved
  assert "column town holds what the training data lacked: 'Rome' in 1" in texts
  assert table.x[0, 0] == 0


def test_five_deviations_are_not_far(tmp_path):
  assert not _read(tmp_path, 'ann,rome,1.7e9,3,99,').remarks
  assert 'age from 50 to 101' in _read(
      tmp_path, 'ann,rome,1.7e9,3,101,'
  ).remarks[0]


def test_without_a_rule_gaps_are_refused(tmp_path):
  fitted = features.Features(_FITTED.features[:1], True)
  with pytest.raises(errors.DataError, match='training data had no such cells'):
    _read(tmp_path, 'ann,', fitted=fitted, header='client,age')


def test_no_column_of_the_model_is_to_be_renamed(tmp_path):
  names = [f'x{number}' for number in (*range(12), 25)]
  fitted = features.Features(tuple(
      features.Feature(name, 0.0, 1.0, False) for name in names
  ), True)
  names.remove('x5')
  for other, tip in ('z', ''), ('X5', " Tip: rename 'X5'."):
    with pytest.raises(errors.DataError) as info:
      _read(tmp_path, fitted=fitted, header=','.join(['client', *names, other]))
    assert str(info.value).endswith(
        "found no 'x5' among client, x0, x1, x2, x3, x4, x6, x7 and 6 others."
        + tip
    )


@pytest.mark.parametrize('name, found', [
    ('none.csv', 'exist, found .*none.csv'), ('', 'name a .* or the folder'),
])
def test_data_that_are_not_there_are_refused(tmp_path, name, found):
  with pytest.raises(errors.DataError, match=f'`data_dir` must {found}'):
    new_data.read(name and str(tmp_path / name), _FITTED, [5])


def test_times_of_arrays_keep_their_differences(tmp_path):
  fitted = features.Features(
      (features.Feature('x0', 1.7e9, 10.0, False),), True
  )
  path = str(tmp_path / 'later.npz')
  np.savez(path, x=[[1.7e9 + 5], [1.7e9 - 20]], client=[0, 1])
  table = new_data.read(path, fitted, [1], ('client',))
  np.testing.assert_array_equal(table.x, [[0.5], [-2]])


def test_arrays_of_images_keep_their_shape_where_nothing_is_fitted(tmp_path):
  path, x = str(tmp_path / 'later.npz'), np.arange(32.0).reshape(2, 4, 4)
  np.savez(path, x=x, client=[0, 1])
  table = new_data.read(path, None, [4, 4], ('client',))
  np.testing.assert_array_equal(table.x, x)


def test_codes_of_older_runs_are_those_of_today(tmp_path):
  fitted = features.Features.from_json(features.Features((
      features.Feature('kind', 0.0, 1.0, False, ('1.0', '2.0')),
  ), True, reading=dict(categorical='kind', categories='one_hot')).to_json())
  table = _read(tmp_path, 'ann,2', fitted=fitted, header='client,kind')
  np.testing.assert_array_equal(table.x, [[0, 1]])


def test_dates_are_made_as_in_training(tmp_path):
  fitted = features.Features(
      (features.Feature('day month', 6.0, 1.0, False),), True,
      reading=dict(dates='day'),
  )
  table = _read(tmp_path, 'ann,2024-08-01', fitted=fitted, header='client,day')
  np.testing.assert_array_equal(table.x, [[2]])


def test_columns_of_other_names_are_those_of_training(tmp_path):
  """The column y was left out there, beside the label's."""
  fitted = features.Features(
      (features.Feature('age', 5.0, 1.0, False),), True, ('no', 'yes'),
      dict(client_column='who', label_column='ill', drop_columns='y'),
  )
  (tmp_path / 'later.csv').write_text('ill,y,who,age\nyes,7,ann,4\nno,,bob,5\n')
  table = new_data.read(str(tmp_path / 'later.csv'), fitted, [1])
  assert table.names.tolist() == ['ann', 'bob']
  assert new_data.labels(table, 2, ('no', 'yes')).tolist() == [1, 0]
  np.testing.assert_array_equal(table.x, [[-1], [0]])
