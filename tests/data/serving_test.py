"""Exported models make of a file's cells what reading and fitting make."""

import numpy as np
import pytest
import tensorflow as tf

from tests import csv_rows
from tff_pers.data import arrow_files
from tff_pers.data import columnar
from tff_pers.data import features
from tff_pers.data import new_data
from tff_pers.data import readings
from tff_pers.data import serving
from tff_pers.data import task as task_lib
from tff_pers.models import zoo

_HEADER = 'client,y,at,a b,colour,when,same,whole'
_ROWS = (
    'u,0,1700000000.25, 1.5 ,red,2024-02-29T23:59:30.5Z,7,3',
    'u,1,1700000060,,blue ,31.12.1999,7,4',
    'v,1,1700000123,NA,NULL,1900-03-01 04:05,7,3',
    'v,0,1700000001,-2e3,red,,7,5',
    'v,0,1699999999,1000.123,Grün,2000-01-01T00+01:00,7,6',
)
_OPTIONS = dict(
    missing='mean', categories='one_hot', dates='when', categorical='whole',
)


@pytest.mark.parametrize('standardize', [True, False])
def test_cells_become_what_the_model_takes(standardize, tmp_path):
  """Also texts and dates that training had not."""
  path, later = tmp_path / 'a.csv', tmp_path / 'b.csv'
  path.write_text('\n'.join([_HEADER, *_ROWS]), encoding='utf-8')
  later.write_text('\n'.join([
      _HEADER.replace('colour,when', 'when,colour'),
      'w,0,1700000077.5,3,2025-07-04,violet,8,9',
      'w,0,1700000078.5,?,1970-01-01,Grün,8,3.0',
  ]), encoding='utf-8')
  table = columnar.read(
      arrow_files.open_table(str(path), 'csv'),
      readings.Reading.by_options('csv', _OPTIONS),
  )
  fitted = features.fit(
      [table.x], features.Recipe(table.columns, standardize, None, _OPTIONS)
  )
  model = zoo.build(
      'logistic_regression',
      tf.TensorSpec([None, len(fitted.outputs)], tf.float32), 2,
  )
  served = serving.of_task(task_lib.Task(
      'csv', model, [], [], num_classes=2, features=fitted
  ), model)
  for each in (path, later):
    rows = csv_rows.read(each)
    raw = {}
    for name, spec in served.inputs.items():
      cells = [row[name] for row in rows]
      if spec.dtype == tf.float64:
        cells = [float('nan' if c in ('', '?', 'NA') else c) for c in cells]
      raw[name] = tf.constant(cells, spec.dtype)
    x = new_data.read(str(each), fitted, [len(fitted.outputs)]).x
    np.testing.assert_allclose(served.to_x(raw), x, rtol=1e-6, atol=1e-6)


def test_a_date_that_is_none_is_no_number():
  fitted = features.Features(
      (features.Feature('when year', 2000.0, 1.0, False),), True,
      reading=dict(missing='refuse', dates='when'),
  )
  model = zoo.build(
      'linear_regression', tf.TensorSpec([None, 1], tf.float32), 0
  )
  served = serving.of_task(
      task_lib.Task('csv', model, [], [], features=fitted), model
  )
  assert served.to_x({'when': tf.constant(['2001-01-01'])}) == 1
  with pytest.raises(tf.errors.InvalidArgumentError, match='someday'):
    served.to_x({'when': tf.constant(['someday'])})


@pytest.mark.parametrize('predictions, expected', [
    ([0.0, 2.0], [0.5, 1 / (1 + np.exp(-2))]),
    ([[0.0], [2.0]], [0.5, 1 / (1 + np.exp(-2))]),
    ([[1.0, 1.0], [0.0, 2.0]], [0.5, 1 / (1 + np.exp(-2))]),
])
def test_answers_are_names_and_probabilities(predictions, expected):
  model = zoo.build(
      'logistic_regression', tf.TensorSpec([None, 3], tf.float32), 2
  )
  task = task_lib.Task(
      'npz', model, [], [], num_classes=2, features=features.Features(
          tuple(features.Feature(n, 1.0, 0.0, False) for n in 'abc'), False,
          ('no', 'yes'),
      ),
  )
  served = serving.of_task(task, model)
  answers = served.answers(tf.constant(predictions))
  np.testing.assert_allclose(answers['probabilities'][:, 1], expected)
  assert answers['label'].numpy().tolist() == [b'no', b'yes']
