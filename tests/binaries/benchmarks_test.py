"""Benchmarks that `tuned_parts` runs: what they hand on, and one tiny run."""

import pytest

from binaries import benchmark_floral
from binaries import benchmark_perm
from binaries import compare_tuned
from binaries import tuned_parts
from tff_pers.data import brackets
from tff_pers.evaluation import grids

_PROGRAMS = dict(
    benchmark_floral=benchmark_floral, benchmark_perm=benchmark_perm
)


@pytest.mark.parametrize('name', _PROGRAMS)
def test_every_method_of_a_part_has_as_many_trials(name):
  for part, own in _PROGRAMS[name].BENCHMARK.parts.items():
    flags = {**_PROGRAMS[name].BENCHMARK.scales['cpu'], **own}
    found = grids.parse_grids(
        flags['grid'], brackets.split_list(flags['algos'])
    )
    assert len({len(grid.values) for grid in found.values()}) == 1, part


@pytest.mark.parametrize('name', _PROGRAMS)
def test_no_flag_is_of_what_a_grid_sets(name):
  """compare_tuned refuses it, because it would act in no variant."""
  for part, own in _PROGRAMS[name].BENCHMARK.parts.items():
    flags = {**_PROGRAMS[name].BENCHMARK.scales['cpu'], **own}
    found = grids.parse_grids(
        flags['grid'], brackets.split_list(flags['algos'])
    )
    tried = {
        f'{brackets.parse(variant)[0]}_{option}'
        for variant, grid in found.items() for option in grid.names
    }
    assert not tried & set(flags), part


@pytest.mark.parametrize('scale', ['cpu', 'paper'])
def test_floral_hands_on_what_its_parts_say(tmp_path, monkeypatch, scale):
  handed = []
  monkeypatch.setattr(
      compare_tuned, 'main', lambda argv: handed.append(argv) or 0
  )
  monkeypatch.setattr(tuned_parts, 'page', lambda *args: 'the page')
  assert benchmark_floral.main([
      'benchmark_floral', f'--scale={scale}', '--data_dir=/data',
      '--parts=adaptors,mnist_shifted', f'--output_dir={tmp_path}',
  ]) == 0
  generated, images = handed
  assert '--num_clients=20' in generated and '--rounds=200' in generated
  assert not [flag for flag in generated if flag.startswith('--data_dir')]
  assert '--data_dir=/data' in images
  assert ('--num_clients=40' in images) == (scale == 'cpu')


def test_perm_beside_another_method(tmp_path, monkeypatch):
  monkeypatch.setitem(
      benchmark_perm.BENCHMARK.parts, 'iid', dict(
          task='digits', partition='iid', algos='fedavg,fedavg_finetuned',
          grid='learning_rate:0.1;fedavg.local_steps:2;fedavg_finetuned.steps:3',
      ),
  )
  assert benchmark_perm.main([
      'benchmark_perm', '--parts=iid', '--seeds=0', '--num_clients=4',
      '--train_fraction=0.1', '--rounds=1', '--eval_every=1',
      f'--output_dir={tmp_path}',
  ]) == 0
  page = (tmp_path / 'perm.md').read_text()
  assert '## digits: alike' in page
  assert '| fedavg ' in page and '| local_steps=2 |' in page
