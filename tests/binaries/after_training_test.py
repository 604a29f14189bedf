"""A run goes on: more rounds, forks, later clients, exports, predictions."""

import csv
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from binaries import evaluate
from binaries import predict
from binaries import train
from tests import csv_rows
from tff_pers.evaluation import results
from tff_pers.experiments import reload_run

_COMMON = (
    '--task=csv', '--csv_categories=one_hot', '--csv_missing=mean',
    '--algo=fedavg_finetuned', '--rounds=4', '--eval_every=2',
    '--strategy=loop',
)


def _table(path, names, size, seed=0, shift=0.0, split=None, labels=True):
  """Writes clients whose labels follow an age, in tens, and a colour."""
  rng = np.random.default_rng(seed)
  with open(path, 'w', newline='', encoding='utf-8') as file:
    writer = csv.writer(file)
    columns = ['client', 'age', 'colour']
    columns += ['y'] if labels else []
    columns += ['split'] if split else []
    writer.writerow(columns)
    for name in names:
      for row in range(size):
        age, colour = rng.normal(50, 10), rng.choice(['red', 'blue'])
        label = 'yes' if (age - 50) / 10 + (colour == 'red') > 0.3 else 'no'
        cells = [name, '' if row == 3 else f'{age + shift:.4f}', colour]
        cells += [label] if labels else []
        cells += [split(row)] if split else []
        writer.writerow(cells)
  return str(path)


@pytest.fixture(scope='module', name='folder')
def _folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp('after')
  data = _table(folder / 'mine.csv', ['ann', 'bob', 'cid'], 40)
  assert _train(folder / 'run', f'--data_dir={data}', '--export=saved_model') == 0
  return folder


def _train(output, *flags, common=_COMMON):
  return train.main(['train', *common, *flags, f'--output_dir={output}'])


def _evaluate(*flags):
  return evaluate.main(['evaluate', *map(str, flags)])


def _predict(run, data, output, *flags):
  """Returns the predictions, which are written to the path `output`."""
  assert predict.main([
      'predict', f'--run={run}', f'--data_dir={data}', f'--output={output}',
      *flags,
  ]) == 0
  return csv_rows.read(output)


def _clients(folder):
  return {row['client']: row for row in csv_rows.read(folder / results.CLIENTS)}


def _metrics(folder):
  """Returns the rows of metrics without what time it took."""
  rows = results.read_rows(str(folder), results.METRICS)
  return [
      {k: v for k, v in row.items() if k not in ('seconds', 'seconds_per_round')}
      for row in rows
  ]


def test_evaluation_of_its_own_data_repeats_a_run(folder, tmp_path):
  before = (folder / 'run' / results.CHECKPOINT).read_bytes()
  assert _evaluate(f'--run={folder}/run', f'--output_dir={tmp_path}/own') == 0
  assert _clients(tmp_path / 'own') == _clients(folder / 'run')
  assert (folder / 'run' / results.CHECKPOINT).read_bytes() == before


def test_exported_models_have_the_results_of_the_run(folder):
  opened = reload_run.open_run(str(folder / 'run'), '')
  for name, data in zip(opened.names, opened.data.test):
    model = tf.saved_model.load(str(folder / 'run/export' / f'client_{name}'))
    x, y = data['examples']['x'], data['examples']['y']
    logits = np.squeeze(model.predict(x))  # One logit, that of class 1.
    expected = _clients(folder / 'run')[name]
    found = np.mean((logits > 0) == y), np.mean(
        np.logaddexp(0, logits) - logits * y
    )
    np.testing.assert_allclose(
        found, [float(expected[m]) for m in ('accuracy', 'loss')], rtol=1e-5
    )


def test_new_clients_are_adapted_evaluated_exported(folder, tmp_path):
  """Nothing is fitted to new rows: far ages stay far."""
  data = _table(
      tmp_path / 'next.csv', ['ann', 'zoe', 'far'], 30, seed=3,
      split=lambda row: 'test' if row >= 20 else 'train',
  )
  assert _evaluate(
      f'--run={folder}/run', f'--data_dir={data}', f'--output_dir={tmp_path}/n',
      '--export=saved_model', '--export_clients=zoe',
  ) == 0
  rows = _clients(tmp_path / 'n')
  assert {name: row['seen'] for name, row in rows.items()} == dict(
      ann='1', zoe='0', far='0'
  )
  # The known client has adapted to what it trained on, 32 of its 40 rows.
  assert rows['ann']['num_train'] == '32' and rows['zoe']['num_train'] == '20'
  assert all(row['num_test'] == '10' for row in rows.values())
  assert float(rows['zoe']['accuracy']) > 0.6
  predicted = _predict(tmp_path / 'n', data, tmp_path / 'p.csv', '--client=zoe')
  tests = [
      (p['prediction'] == t['y'], -np.log(float(p[f'probability_{t["y"]}'])))
      for p, t in zip(predicted, csv_rows.read(data))
      if t['client'] == 'zoe' and t['split'] == 'test'
  ]
  np.testing.assert_allclose(
      np.mean(tests, axis=0),
      [float(rows['zoe'][metric]) for metric in ('accuracy', 'loss')],
      rtol=1e-5,
  )
  chances = [
      float(p['probability_no']) + float(p['probability_yes'])
      for p in predicted
  ]
  np.testing.assert_allclose(chances, 1, rtol=1e-9)


def test_statistics_are_those_of_training(folder, tmp_path):
  """The same rows, with one outlier more, have the same predictions."""
  path, output = tmp_path / 'a.csv', tmp_path / 'a.out'
  _table(path, ['bob'], 5, seed=4, labels=False)
  short = _predict(folder / 'run', path, output)
  path.write_text(path.read_text('utf-8') + 'bob,9999,red\n', 'utf-8')
  long = _predict(folder / 'run', path, output)
  assert long[:-1] == short and len(short) == 5


@pytest.mark.parametrize('program, flags', [
    (predict, ['--client=ann', '--output={0}/p']),
    (evaluate, ['--output_dir={0}/e']),
])
def test_categories_that_training_had_not_are_named(
    program, flags, folder, tmp_path, capsys
):
  texts = ['violet'] * 3 + ['red'] * 4 + ['', 'two words']
  (tmp_path / 'next.csv').write_text('client,y,age,colour\n' + ''.join(
      f'ann,yes,50,{text}\n' for text in texts
  ))
  assert program.main([
      'x', f'--run={folder}/run', f'--data_dir={tmp_path}/next.csv',
      *(flag.format(tmp_path) for flag in flags),
  ]) == 0
  assert capsys.readouterr().err == (
      f'{tmp_path}/next.csv, column colour holds what the training data'
      " lacked: 'violet' in 3 rows, 'two words' in 1 row, no value in 1 row. The"
      ' model uses zeros there.\n'
  )


def test_gaps_are_filled_and_far_columns_named(folder, tmp_path, capsys):
  """By the mean of training, which is 0; ages in months are far."""
  data, found = tmp_path / 'a.csv', []
  for are_far, ages in ((False, ['', '', '50']), (True, ['612', '590', '600'])):
    data.write_text('client,age,colour,extra\n' + ''.join(
        f'ann,{age},red,x\n' for age in ages
    ))
    found += _predict(folder / 'run', data, tmp_path / 'a.out')
    error = capsys.readouterr().err
    assert ('age from 50.' in error) == are_far, error
  assert error.endswith('to 600.667. Are units and columns the same?\n')
  assert found[0] == {**found[1], 'row': '0'} and len(found) == 6


def test_new_clients_of_a_method_without_a_global_model(tmp_path, capsys):
  data = _table(tmp_path / 'mine.csv', ['ann', 'bob'], 10)
  assert _train(
      tmp_path / 'run', '--algo=local_only', '--rounds=1', f'--data_dir={data}',
      '--export=saved_model',
  ) == 0
  _table(tmp_path / 'new.csv', ['zoe'], 5, labels=False)
  assert predict.main([
      'predict', f'--run={tmp_path}/run', f'--data_dir={tmp_path}/new.csv'
  ]) == 0
  assert 'client without data, which is the untrained one.' in (
      capsys.readouterr().err
  )


def test_one_file_has_clients_of_a_run_and_of_its_evaluation(folder, tmp_path):
  """Each row is predicted by the model that its client had alone."""
  new = _table(tmp_path / 'new.csv', ['zoe'], 30, seed=3)
  assert _evaluate(
      f'--run={folder}/run', f'--data_dir={new}', f'--output_dir={tmp_path}/n',
      '--export=saved_model',
  ) == 0
  data = _table(tmp_path / 'd.csv', ['ann', 'zoe'], 5, labels=False)
  both = _predict(tmp_path / 'n', data, tmp_path / 'p.csv')
  assert [row['client'] for row in both] == ['ann'] * 5 + ['zoe'] * 5
  _table(tmp_path / 'd.csv', ['ann'], 5, labels=False)
  assert both[:5] == _predict(folder / 'run', data, tmp_path / 'p.csv')


def test_new_clients_are_predicted_in_a_folder_of_their_own(
    folder, tmp_path, capsys
):
  run = tmp_path / 'run'
  shutil.copytree(folder / 'run', run)
  for name, clients in (('a', ['ann']), ('b', ['ann', 'zoe', 'Bob'])):
    (tmp_path / f'{name}.csv').write_text('client,age,colour\n' + ''.join(
        f'{client},55,red\n' for client in clients
    ))
    assert predict.main([
        'predict', f'--run={run}', f'--data_dir={tmp_path}/{name}.csv'
    ]) == 0
  said, error = capsys.readouterr()
  assert '1 prediction is in ' in said and '3 predictions are in ' in said
  assert "'bob' (32) and 'Bob' (1)" in error
  assert (
      'never trained (Bob, zoe) get the model that fedavg_finetuned gives a'
      ' client without data.'
  ) in error
  [only] = results.read_rows(str(run), 'predictions.csv')
  known, new, alike = results.read_rows(
      str(run / 'predictions'), 'predictions.csv'
  )
  assert known == only
  chances = [row['probability_yes'] for row in (known, new, alike)]
  assert chances[0] != chances[1] == chances[2]


def test_a_second_evaluation_has_a_folder_of_its_own(folder, tmp_path):
  run = tmp_path / 'run'
  shutil.copytree(folder / 'run', run)
  data = _table(tmp_path / 'next.csv', ['ann'], 9)
  for flags in ([], [f'--data_dir={data}'], []):
    assert _evaluate(f'--run={run}', *flags) == 0
  assert len(_clients(run / 'evaluation')) == 3
  assert len(_clients(run / 'evaluation_2')) == 1
  assert not (run / 'evaluation_3').exists()


@pytest.mark.parametrize('adapts', [False, True])
def test_who_does_not_adapt_is_tested_on_all_rows(
    adapts, folder, tmp_path, capsys
):
  data = _table(tmp_path / 'next.csv', ['ann', 'zoe'], 10)
  opened = reload_run.open_run(str(folder / 'run'), data)

  class Trainer:

    def deployed_weights(self, data):
      [client] = data.train
      return [[np.float32(adapts and client['examples']['y'].max())]]

  found = reload_run.testing_on_all(opened, Trainer()).data
  sizes = lambda part: [int(client['num_examples']) for client in part]
  assert sizes(found.train) == [32, 8 if adapts else 0]
  assert sizes(found.test) == [10, 2 if adapts else 10]
  assert found.test[1]['index'] == 3
  assert ('tested on all of their rows' in capsys.readouterr().out) != adapts


def test_a_new_client_with_one_row_is_tested_on_it(folder, tmp_path):
  data = _table(tmp_path / 'next.csv', ['ann', 'zoe'], 10)
  with open(data, 'a', encoding='utf-8') as file:
    file.write('one,50,red,yes\n')
  assert _evaluate(
      f'--run={folder}/run', f'--data_dir={data}', f'--output_dir={tmp_path}/n'
  ) == 0
  rows = _clients(tmp_path / 'n')
  assert rows['one']['seen'] == '0' and np.isfinite(float(rows['one']['loss']))
  # Others still adapt, to 8 of their 10 rows.
  assert rows['zoe']['num_train'] == '8'


def test_each_row_has_the_model_of_its_client_unless_one_is_named(
    folder, tmp_path
):
  data = _table(tmp_path / 'u.csv', ['ann', 'bob'], 4, seed=5, labels=False)
  each, of_bob = (
      _predict(folder / 'run', data, tmp_path / 'u.out', f'--client={client}')
      for client in ('', 'bob')
  )
  assert [row['client'] for row in each] == ['ann'] * 4 + ['bob'] * 4
  assert each[4:] == of_bob[4:] and each[:4] != of_bob[:4]
  assert {row['client'] for row in of_bob} == {'bob'}


def test_a_table_without_clients_is_predicted_by_the_named_one(
    folder, tmp_path
):
  (tmp_path / 'x.csv').write_text('colour,age\nred,51\nblue,40\n')
  assert len(_predict(
      folder / 'run', tmp_path / 'x.csv', tmp_path / 'x.out', '--client=ann'
  )) == 2


_BARE = """
import csv, json, sys
import numpy as np, tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
with open(sys.argv[2], newline='', encoding='utf-8') as file:
  rows = list(csv.DictReader(file))
texts = json.loads(sys.argv[4])
answers = model.score({
    name: tf.constant(
        [row[name] for row in rows] if name in texts
        else [float(row[name] or 'nan') for row in rows],
        tf.string if name in texts else tf.float64,
    ) for name in (column.decode() for column in model.columns().numpy())
})
answers['classes'] = model.classes()
np.savez(sys.argv[3], **{
    name: value.numpy().astype(str if value.dtype == tf.string else float)
    for name, value in answers.items()
})
assert not {'tff_pers', 'tensorflow_federated'} & set(sys.modules)
"""


def test_tensorflow_alone_scores_raw_rows_as_predict_does(folder, tmp_path):
  data = _table(tmp_path / 'new.csv', ['bob'], 6, seed=9, labels=False)
  rows = _predict(folder / 'run', data, tmp_path / 'p.csv')
  # TensorFlow is in another process.
  subprocess.run(
      [
          sys.executable, '-c', _BARE, folder / 'run/export/client_bob', data,
          tmp_path / 'a.npz', '["colour"]',
      ], check=True, cwd=tmp_path, stderr=subprocess.DEVNULL,
  )
  answers = np.load(tmp_path / 'a.npz')
  assert answers['classes'].tolist() == ['no', 'yes']
  assert answers['label'].tolist() == [row['prediction'] for row in rows]
  np.testing.assert_allclose(answers['probabilities'], [
      [float(row[f'probability_{name}']) for name in ('no', 'yes')]
      for row in rows
  ], atol=1e-6)


@pytest.mark.parametrize('change', [dict(y_is_scaled=True), dict(x_scale=2.0)])
def test_runs_of_other_scales_are_not_gone_on_with(
    folder, tmp_path, capsys, change
):
  config = dict(results.read_config(str(folder / 'run')))
  shutil.copytree(folder / 'run', tmp_path / 'run')
  results.write_config(str(tmp_path / 'run'), dict(config, **change))
  assert _train(tmp_path / 'run', '--resume', common=()) == 2
  assert 'x and y are scaled as in its training' in capsys.readouterr().err


def test_more_rounds_are_those_of_an_uninterrupted_run(folder, tmp_path):
  run = tmp_path / 'run'
  data = f'--data_dir={folder}/mine.csv'
  assert _train(run, data, '--rounds=2') == 0
  assert _train(run, '--resume', '--rounds=4', common=()) == 0
  assert _metrics(run) == _metrics(folder / 'run')
  assert _clients(run) == _clients(folder / 'run')
  config = json.loads((run / results.CONFIG).read_text())
  assert config['flags']['rounds'] == config['given']['rounds'] == 4
  # Finished again: the same flags change nothing.
  before = (run / results.METRICS).read_bytes()
  assert _train(run, '--resume', common=()) == 0
  assert (run / results.METRICS).read_bytes() == before


def test_a_fork_starts_where_the_run_is(folder, tmp_path, capsys):
  run, fork, same = folder / 'run', tmp_path / 'fork', tmp_path / 'same'
  longer = tmp_path / 'longer'
  shutil.copytree(run, longer)
  assert _train(longer, '--resume', '--rounds=6', common=()) == 0
  assert _train(same, f'--fork={run}', '--rounds=6', common=()) == 0
  assert _metrics(same)[-1] == _metrics(longer)[-1]
  assert [row['round'] for row in _metrics(same)] == ['6']
  assert _train(
      fork, f'--fork={run}', '--rounds=6',
      '--fedavg_finetuned_learning_rate=0.001', common=(),
  ) == 0
  assert _metrics(fork)[-1]['loss_mean'] != _metrics(longer)[-1]['loss_mean']
  record = json.loads((fork / results.CONFIG).read_text())['fork']
  assert record == dict(folder=str(run), round=4)
  capsys.readouterr()
  for flags, message in (
      (['--rounds=3'], '`--rounds` must be > the 4 rounds'),
      (['--seed=1', '--rounds=6'], '`--seed` must be 0 as in the run of --fork'),
      (['--algo=apfl', '--rounds=6'], '`--algo` must be fedavg_finetuned as in'),
      (['--model=mlp_200', '--rounds=6'], 'fedavg_finetuned, found other states'),
  ):
    assert _train(tmp_path / 'x', f'--fork={run}', *flags, common=()) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / 'x').exists()


def test_the_tip_after_a_divergence_works(folder, tmp_path, capsys):
  run = folder / 'run'
  rate = '--fedavg_finetuned_learning_rate'
  for every, size, tip in (
      (4, 1e38, 'Or fork from it'), (1, 1e37, 'do not resume')
  ):
    fork = tmp_path / f'fork{every}'
    capsys.readouterr()
    assert _train(
        fork, f'--fork={run}', f'{rate}={size}', '--rounds=60',
        f'--eval_every={every}', common=(),
    ) == 1
    assert tip in capsys.readouterr().err
  assert _train(
      tmp_path / 'mended', f'--fork={tmp_path}/fork4', f'{rate}=0.1', '--rounds=6',
      common=(),
  ) == 0
  [row] = _metrics(tmp_path / 'mended')
  assert row['round'] == '6' and float(row['loss_mean']) < 1


def test_models_of_a_finished_run_can_still_be_exported(folder, tmp_path):
  run = tmp_path / 'run'
  shutil.copytree(folder / 'run', run)
  shutil.rmtree(run / 'export')
  for kind in ('npz', 'saved_model'):
    assert _train(
        run, '--resume', f'--export={kind}', '--export_clients=bob', common=()
    ) == 0
  record = json.loads((run / 'export' / 'export.json').read_text())
  assert record['clients'] == dict(
      bob=dict(npz='client_bob.npz', saved_model='client_bob')
  )
  old, new = (
      tf.saved_model.load(str(f / 'export' / 'client_bob'))
      for f in (folder / 'run', run)
  )
  x = np.random.default_rng(0).normal(size=[4, 4]).astype(np.float32)
  np.testing.assert_array_equal(old.predict(x), new.predict(x))
