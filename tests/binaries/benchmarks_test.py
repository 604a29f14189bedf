"""Benchmarks of files: what they hand on, what is refused, and one tiny run."""

import itertools

import pytest

from binaries import benchmark
from binaries import compare_tuned
from tff_pers.data import brackets
from tff_pers.evaluation import grids
from tff_pers.experiments import benchmark_runs
from tff_pers.experiments import experiment
from tff_pers.experiments import flags

_BENCHMARKS = {
    name: benchmark_runs.read(name) for name in benchmark_runs.names()
}


@pytest.mark.parametrize('name', _BENCHMARKS)
def test_every_variant_can_be_built_and_has_as_many_trials(name):
  """Most take days or a GPU, so that nothing else would tell."""
  table = compare_tuned.main.flag_table()
  own = _BENCHMARKS[name]
  for scale, part in itertools.product(own.scales, own.parts or ['']):
    handed = benchmark_runs.flags_of(own, scale, part, {}, table)
    given = flags.parse(['', *_words(handed)], table)
    found = grids.parse_grids(
        given.pop('grid'), brackets.split_list(given.pop('algos'))
    )
    assert len({len(grid.values) for grid in found.values()}) == 1, part
    for variant, grid in found.items():
      # compare_tuned refuses a flag of what a grid sets: it would act nowhere.
      algo = brackets.parse(variant)[0]
      assert not {f'{algo}_{option}' for option in grid.names} & set(given)
      tried = grids.with_options(variant, grid.options(grid.values[0]))
      experiment.of_variant(tried, given, table)


@pytest.mark.parametrize('name', _BENCHMARKS)
def test_parts_know_the_scales_and_say_what_they_compare(name):
  own = _BENCHMARKS[name]
  for part_name, part in own.parts.items():
    assert set(part.scales) <= set(own.scales), part_name
    for scale in own.scales:
      assert {'algos', 'task'} <= set(own.flags(scale, part_name)), part_name
    if part.published is not None:
      assert set(part.published.differs) == set(own.scales), part_name
      assert all(0 < a < 1 for a in part.published.values.values())


def _words(values):
  return [f'--{name}={value}' for name, value in values.items()]


@pytest.fixture(name='handed')
def fixture_handed(monkeypatch):
  """Command lines of compare_tuned, which is not run."""
  handed = []
  monkeypatch.setattr(
      flags.Program, '__call__', lambda own, argv: handed.append(argv) or 0
  )
  monkeypatch.setattr(benchmark_runs, 'of_parts', lambda *args: 'the page')
  return handed


@pytest.mark.parametrize('scale', ['cpu', 'paper'])
def test_floral_hands_on_what_its_parts_say(tmp_path, handed, scale):
  assert benchmark.main([
      'benchmark', 'floral', f'--scale={scale}', '--data_dir=/data',
      '--parts=adaptors,mnist_shifted', f'--output_dir={tmp_path}',
  ]) == 0
  generated, images = handed
  assert '--num_clients=20' in generated and '--rounds=200' in generated
  assert not [flag for flag in generated if flag.startswith('--data_dir')]
  assert '--data_dir=/data' in images
  assert ('--num_clients=40' in images) == (scale == 'cpu')


def test_chosen_methods_bring_their_own_grids_and_flags(tmp_path, handed):
  assert benchmark.main([
      'benchmark', 'overview', '--parts=iid', '--algos=perm,fedavg',
      f'--output_dir={tmp_path}',
  ]) == 0
  (argv,) = handed
  assert '--algos=perm,fedavg' in argv
  assert (
      '--grid=learning_rate:0.1,0.3,1;perm.warmup_rounds:5,10;'
      'fedavg.local_steps:5,20'
  ) in [flag.replace('; ', ';') for flag in argv]
  assert not [flag for flag in argv if flag.startswith('--ditto_')]


def test_a_part_trains_and_writes_its_page(tmp_path, monkeypatch):
  overview = _BENCHMARKS['overview']
  few = dict(
      overview.parts['iid'].flags, algos='fedavg,fedavg_finetuned',
      grid='learning_rate:0.1;fedavg.local_steps:2;fedavg_finetuned.steps:3',
  )
  overview = overview._replace(
      parts={'iid': overview.parts['iid']._replace(flags=few)}
  )
  monkeypatch.setattr(benchmark_runs, 'read', lambda name: overview)
  assert benchmark.main([
      'benchmark_perm', '--parts=iid', '--seeds=0', '--num_clients=4',
      '--train_fraction=0.1', '--rounds=1', '--eval_every=1',
      f'--output_dir={tmp_path}',
  ]) == 0
  page = (tmp_path / 'overview.md').read_text()
  assert '    python -m binaries.benchmark_perm --scale=cpu' in page
  assert '## digits: IID clients' in page
  assert '| fedavg ' in page and '| local_steps=2 |' in page
