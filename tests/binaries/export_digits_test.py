"""Every method on digits: exported models have the results of the run."""

import csv

import numpy as np
import pytest
import tensorflow as tf

from binaries import train
from tff_pers.config import methods
from tff_pers.evaluation import results
from tff_pers.experiments import processes
from tff_pers.experiments import reload_run


@pytest.mark.slow
@pytest.mark.parametrize('algo', methods.names())
def test_reloaded_models_have_the_results_of_the_run(algo, tmp_path):
  run = tmp_path / 'run'
  assert train.main([
      'train', f'--algo={algo}', '--task=digits', '--rounds=2',
      f'--model={"mlp_bn" if algo == "fedbn" else "mlp"}',
      '--eval_every=2', '--strategy=loop', f'--output_dir={run}',
      '--export=saved_model', '--export_clients=0,3',
  ]) == 0
  with open(run / results.CLIENTS, newline='', encoding='utf-8') as file:
    written = {row['client']: row for row in csv.DictReader(file)}
  opened = reload_run.open_run(str(run), '')
  model = processes.build(opened.experiment).process.deployed
  for client in ('0', '3'):
    examples = opened.data.test[opened.names.index(client)]['examples']
    loaded = tf.saved_model.load(str(run / 'export' / f'client_{client}'))
    predictions = loaded.predict(examples['x'])
    found = np.mean(model.example_loss(examples['y'], predictions))
    np.testing.assert_allclose(
        found, float(written[client]['loss']), rtol=1e-4
    )
