"""`benchmark local_updates`: two rounds on small generated files."""

import pytest

from binaries import benchmark
from binaries import compare_tuned
from binaries import tuned_pages
from tests.data import emnist_files
from tff_pers.data import brackets
from tff_pers.experiments import jobs as jobs_lib

BENCHMARK = benchmark.read('local_updates')


def _benchmark(folder, *argv):
  return benchmark.main(
      ['benchmark', 'local_updates', *argv, f'--output_dir={folder}']
  )


@pytest.mark.slow
def test_writes_a_table_and_curves_per_part(tmp_path, capsys, monkeypatch):
  data = emnist_files.write(tmp_path, **emnist_files.full([(20, 5)] * 6))
  parts = {}
  for part, algo in (('gamma', 'local_update[gamma=0]'), ('servers', 'fedavg')):
    own = BENCHMARK.parts[part]
    name = own.flags['grid'].partition(':')[0]
    parts[part] = own._replace(flags=dict(algos=algo, grid=f'{name}:0.1'))
  monkeypatch.setattr(
      benchmark, 'read', lambda name: BENCHMARK._replace(parts=parts)
  )
  assert _benchmark(
      tmp_path / 'runs', f'--data_dir={data}', '--emnist_min_train=20',
      '--emnist_min_test=5', '--seeds=0', '--num_clients=6',
      '--clients_per_round=2', '--rounds=2', '--eval_every=1',
  ) == 0
  page = (tmp_path / 'runs' / BENCHMARK.page).read_text()
  assert page in capsys.readouterr().out
  command, gamma, servers = page.split('\n## ')
  assert '--scale=cpu' in command and '--emnist_min_train=20' in command
  assert '--data_dir=DATA' in command and str(tmp_path) not in page
  assert '| local_update[gamma=0] |' in gamma and '| fedavg ' in servers
  for part in ('gamma', 'servers'):
    assert (tmp_path / 'runs' / part / 'curves.png').exists()


@pytest.mark.parametrize('scale', sorted(BENCHMARK.scales))
def test_a_scale_hands_on_its_flags(tmp_path, monkeypatch, scale):
  handed = []
  monkeypatch.setattr(
      compare_tuned, 'main', lambda argv: handed.append(argv) or 0
  )
  monkeypatch.setattr(tuned_pages, 'of_parts', lambda *args: 'the page')
  argv = [f'--scale={scale}', '--data_dir=/data', '--rounds=7']
  assert _benchmark(tmp_path, *argv) == 0
  for part, own in zip(BENCHMARK.parts.items(), handed):
    assert f'--algos={part[1].flags["algos"]}' in own
    assert f'--output_dir={tmp_path}/{part[0]}' in own
    assert {'--rounds=7', '--data_dir=/data', '--seeds=0,1,2'} <= set(own)
  assert len(handed) == 2
  assert (tmp_path / BENCHMARK.page).read_text() == 'the page'


def test_all_variants_can_be_built(tmp_path):
  data = emnist_files.write(tmp_path, **emnist_files.full([(20, 5)] * 6))
  given = dict(
      task='emnist', data_dir=str(data), emnist_min_train=20,
      emnist_min_test=5,
  )
  jobs_lib.Jobs('test', given, str(tmp_path / 'runs')).check(
      (variant, 0)
      for part in BENCHMARK.parts.values()
      for variant in brackets.split_list(part.flags['algos'])
  )


def test_an_unknown_part_is_one_sentence(tmp_path, capsys):
  assert _benchmark(tmp_path / 'runs', '--parts=gamma,beta') == 2
  assert '`--parts` must be of gamma, servers' in capsys.readouterr().err
  assert not (tmp_path / 'runs').exists()
