"""`benchmark async` and `benchmark_events`: what they hand on, tiny runs."""

import pytest
from tensorflow.python import pywrap_tfe

from binaries import benchmark
from binaries.speed import events
from tests.data import emnist_files
from tff_pers.data import brackets
from tff_pers.experiments import benchmark_runs


BENCHMARK = benchmark_runs.read('async')


@pytest.mark.parametrize('scale', BENCHMARK.scales)
def test_every_method_has_as_many_messages(scale):
  own = BENCHMARK.scales[scale]
  variants = brackets.split_list(own['algos'])
  messages = set()
  for variant in variants:
    name, options = brackets.parse(variant)
    per_update = {
        'fedbuff': int(options.get('buffer_size', 1)), 'fedasync': 1,
        'async_ffgg': 1,
    }.get(name, int(own['clients_per_round']))
    messages.add(int(options['rounds']) * per_update)
  assert len(variants) == 5 and len(messages) == 1


@pytest.mark.slow
def test_writes_a_page_of_both_tables(tmp_path, capsys):
  data = emnist_files.write(tmp_path, **emnist_files.full([(20, 5)] * 4))
  assert benchmark.main([
      'benchmark', 'async', f'--data_dir={data}', '--emnist_min_train=20',
      '--emnist_min_test=5', '--algos=fedasync[rounds=4,eval_every=2]',
      '--grid=learning_rate:0.1', '--seeds=0', '--num_clients=4',
      '--clients_per_round=2', f'--output_dir={tmp_path / "runs"}',
  ]) == 0
  page = (tmp_path / 'runs' / BENCHMARK.page).read_text()
  assert page in capsys.readouterr().out and str(tmp_path) not in page
  assert "`--delays='pareto[shape=1.2]'`" in page
  assert page.count('| fedasync[rounds=4,eval_every=2') == 4


def test_cost_of_events_is_measured(monkeypatch):
  for name in ('TFE_Py_Execute', 'TFE_Py_FastPathExecute'):
    # So that the timers are gone afterwards.
    monkeypatch.setattr(pywrap_tfe, name, getattr(pywrap_tfe, name))
  monkeypatch.setattr(events, '_WARM_UP', 2)
  row = events.measure(6, 3, 4)
  assert tuple(row) == events.COLUMNS
  assert 0 < row['share_outside_tensorflow'] < 1
  assert row['cpu_seconds_per_update'] > 0
