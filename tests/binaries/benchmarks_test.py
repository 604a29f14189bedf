"""Benchmarks of files: what they hand on, what is refused, and one tiny run."""

import pytest

from binaries import benchmark
from binaries import compare_tuned
from binaries import tuned_pages
from tff_pers.data import brackets
from tff_pers.evaluation import grids

_NAMES = ('floral', 'perm')


@pytest.mark.parametrize('name', _NAMES)
def test_every_method_of_a_part_has_as_many_trials(name):
  own = benchmark.read(name)
  for part in own.parts:
    flags = own.flags('cpu', part)
    found = grids.parse_grids(
        flags['grid'], brackets.split_list(flags['algos'])
    )
    assert len({len(grid.values) for grid in found.values()}) == 1, part


@pytest.mark.parametrize('name', _NAMES)
def test_no_flag_is_of_what_a_grid_sets(name):
  """compare_tuned refuses it, because it would act in no variant."""
  own = benchmark.read(name)
  for part in own.parts:
    flags = own.flags('cpu', part)
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
  monkeypatch.setattr(tuned_pages, 'of_parts', lambda *args: 'the page')
  assert benchmark.main([
      'benchmark', 'floral', f'--scale={scale}', '--data_dir=/data',
      '--parts=adaptors,mnist_shifted', f'--output_dir={tmp_path}',
  ]) == 0
  generated, images = handed
  assert '--num_clients=20' in generated and '--rounds=200' in generated
  assert not [flag for flag in generated if flag.startswith('--data_dir')]
  assert '--data_dir=/data' in images
  assert ('--num_clients=40' in images) == (scale == 'cpu')


def test_perm_beside_another_method(tmp_path, monkeypatch):
  perm = benchmark.read('perm')
  few = dict(
      perm.parts['iid'].flags, algos='fedavg,fedavg_finetuned',
      grid='learning_rate:0.1;fedavg.local_steps:2;fedavg_finetuned.steps:3',
  )
  perm = perm._replace(parts={'iid': perm.parts['iid']._replace(flags=few)})
  monkeypatch.setattr(benchmark, 'read', lambda name: perm)
  assert benchmark.main([
      'benchmark_perm', '--parts=iid', '--seeds=0', '--num_clients=4',
      '--train_fraction=0.1', '--rounds=1', '--eval_every=1',
      f'--output_dir={tmp_path}',
  ]) == 0
  page = (tmp_path / 'perm.md').read_text()
  assert '    python -m binaries.benchmark_perm --scale=cpu' in page
  assert '## digits: alike' in page
  assert '| fedavg ' in page and '| local_steps=2 |' in page
