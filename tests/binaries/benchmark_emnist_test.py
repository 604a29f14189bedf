"""`benchmark_emnist`: two rounds on small generated files."""

import pytest

from binaries import benchmark_emnist
from binaries import compare_tuned
from binaries import jobs as jobs_lib
from tests.data import emnist_files


def _benchmark(folder, *argv):
  return benchmark_emnist.main(
      ['benchmark_emnist', *argv, f'--output_dir={folder}']
  )


def test_writes_both_tables_with_command_and_settings(tmp_path, capsys):
  data = emnist_files.write(tmp_path, **emnist_files.full([(20, 5)] * 6))
  assert _benchmark(
      tmp_path / 'runs', f'--data_dir={data}', '--emnist_min_train=20',
      '--emnist_min_test=5', '--algos=fedper[split=input_layer]',
      '--grid=learning_rate:0.1', '--seeds=0', '--num_clients=6',
      '--clients_per_round=2', '--holdout_clients=2', '--rounds=2',
      '--eval_every=2',
  ) == 0
  page = (tmp_path / 'runs' / benchmark_emnist.PAGE).read_text()
  assert page in capsys.readouterr().out
  command, trained, new = page.split('\n## ')
  assert '--scale=cpu' in command and '--emnist_min_train=20' in command
  assert '--data_dir=DATA' in command
  assert '`--model=mlp_200`' in command and '`--rounds=2`' in command
  assert str(tmp_path) not in page
  for table in (trained, new):
    assert '| fedper[split=input_layer] |' in table
  assert 'new_' not in trained and '| new_pooled_accuracy' in new


@pytest.mark.parametrize('scale', sorted(benchmark_emnist.SCALES))
def test_a_scale_hands_on_its_flags(tmp_path, monkeypatch, scale):
  """Two rounds of eight variants take minutes, so nothing is trained here."""
  handed = []
  monkeypatch.setattr(
      compare_tuned, 'main', lambda argv: handed.extend(argv) or 2
  )
  argv = [f'--scale={scale}', '--data_dir=/data', '--rounds=7']
  assert _benchmark(tmp_path, *argv) == 2
  assert '--rounds=7' in handed and '--data_dir=/data' in handed
  assert '--seeds=0,1,2' in handed and '--clients_per_round=10' in handed
  algos = next(word for word in handed if word.startswith('--algos='))
  assert algos.count('split=') == 3 and 'local_only' in algos
  assert not list(tmp_path.iterdir())


def test_all_variants_can_be_built(tmp_path):
  """They are prepared before any is trained: a missing file ends it all."""
  data = emnist_files.write(tmp_path, **emnist_files.full([(20, 5)] * 6))
  given = dict(
      task='emnist', data_dir=str(data), emnist_min_train=20,
      emnist_min_test=5,
  )
  jobs = jobs_lib.Jobs('test', given, tmp_path)
  for scale in benchmark_emnist.SCALES.values():
    variants = jobs_lib.parse_variants(scale['algos'])
    jobs.check((variant, 0) for variant in variants)


def test_missing_data_are_one_sentence(tmp_path, capsys):
  assert _benchmark(tmp_path / 'runs') == 2
  assert '`--data_dir` must name the folder' in capsys.readouterr().err
  assert not (tmp_path / 'runs').exists()
