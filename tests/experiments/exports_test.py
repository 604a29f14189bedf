"""What is said of exported models (tests/binaries has the rest)."""

import dataclasses
import types

import pytest
import tensorflow as tf

from tests import problems
from tff_pers.experiments import exports


@pytest.mark.parametrize('holds', ['', 'the features of its examples'])
def test_who_holds_more_than_a_model_says_so(holds, tmp_path, capsys):
  model = dataclasses.replace(problems.tiny_model(), holds=holds)
  task = types.SimpleNamespace(
      name='tiny', num_classes=0, features=None, named_arrays=None,
  )
  model = dataclasses.replace(model, y_spec=tf.TensorSpec([None, 2]))
  exports.write_models(
      str(tmp_path), model, 'npz', {'a': model.init(tf.zeros([2], tf.int64))},
      names=['a'], task=task,
  )
  assert exports.read_record(str(tmp_path))['holds'] == holds
  said = capsys.readouterr().out
  assert said.startswith('Exported 1 client model to ')
  assert (f'They hold {holds}:' in said) == bool(holds)
