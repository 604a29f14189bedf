"""The benchmarks on real data: what they hand on, and their scale `smoke`.

The scale runs on real samples if TFF_PERS_DATA_DIR names their folder, else on
small generated files in the original formats.
"""

import os

import pytest

from binaries import benchmark_cifar
from binaries import benchmark_emnist
from binaries import benchmark_floral
from binaries import benchmark_personalization
from binaries import benchmark_stackoverflow
from binaries import compare_tuned
from binaries import published
from binaries import real_data
from binaries import tuned_parts
from tests.binaries import real_data_files
from tff_pers.config import methods
from tff_pers.data import brackets
from tff_pers.data import tasks
from tff_pers.evaluation import grids
from tff_pers.experiments import experiment

_PROGRAMS = {
    program.BENCHMARK.name: program for program in (
        benchmark_cifar, benchmark_emnist, benchmark_personalization,
        benchmark_stackoverflow,
    )
}
_PARTS = [
    (name, part) for name, program in _PROGRAMS.items()
    for part in program.BENCHMARK.parts
]
_DATA_DIR = os.environ.get('TFF_PERS_DATA_DIR', '')


@pytest.fixture(name='data', scope='module')
def fixture_data(tmp_path_factory):
  if _DATA_DIR:
    return _DATA_DIR
  folder = tmp_path_factory.mktemp('data')
  real_data_files.write(folder)
  return str(folder)


def _run(name, folder, *argv):
  return _PROGRAMS[name].main([name, *argv, f'--output_dir={folder}'])


# Images and text in every run of the tests; another program, and further kinds
# of models and clients, where there is time. Other parts differ in flags.
_SMOKE = [
    ('benchmark_cifar', ('groups',)),
    ('benchmark_emnist', ('partial',)),
    ('benchmark_stackoverflow', ('tags',)),
    *(
        pytest.param(name, parts, marks=pytest.mark.slow) for name, parts in (
            ('benchmark_cifar', ('groups', 'tiers')),
            ('benchmark_emnist', ('partial', 'writers')),
            ('benchmark_personalization', ('roles',)),
            ('benchmark_stackoverflow', ('tags', 'words')),
        )
    ),
]


@pytest.mark.parametrize('name,parts', _SMOKE)
def test_smoke_writes_a_page_with_command_and_tables(
    name, parts, data, tmp_path, capsys
):
  assert _run(
      name, tmp_path / 'runs', '--scale=smoke', f'--data_dir={data}',
      f'--parts={",".join(parts)}',
  ) == 0
  benchmark = _PROGRAMS[name].BENCHMARK
  page = (tmp_path / 'runs' / benchmark.file).read_text()
  assert page in capsys.readouterr().out
  head, *tables = page.split('\n## ')
  assert f'python -m binaries.{name} --scale=smoke' in head
  assert '--data_dir=DATA' in head and data not in page
  for part, table in zip(parts, tables):
    assert table.startswith(benchmark.titles[part])
    assert '| algo' in table
    if part in benchmark.published:
      paper = benchmark.published[part]
      assert paper.source in table and 'reduced: ' in table
  new = {'benchmark_emnist': 'partial', 'benchmark_personalization': 'roles'}
  if name in new:
    assert 'new_accuracy' in tables[parts.index(new[name])]


@pytest.mark.parametrize('scale', real_data.SCALES)
@pytest.mark.parametrize('name,part', _PARTS)
def test_a_scale_hands_on_its_flags(name, part, scale, tmp_path, monkeypatch):
  handed = []
  monkeypatch.setattr(
      compare_tuned, 'main', lambda argv: handed.extend(argv) or 2
  )
  assert _run(
      name, tmp_path, f'--scale={scale}', f'--parts={part}', '--data_dir=/data',
      '--rounds=7',
  ) == 2
  found = dict(word[2:].split('=', 1) for word in handed if word[:2] == '--')
  assert found['rounds'] == '7' and found['data_dir'] == '/data'
  assert found['seeds'] == ('0' if scale == 'smoke' else '0,1,2')
  assert found['validation_fraction'] == '0.2'
  rates = real_data.RATES[found['task']]
  if scale == 'smoke':
    assert rates.startswith(found['grid'])
  else:
    assert found['grid'] == rates
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('name,part', _PARTS)
def test_flags_and_variants_of_the_papers_sizes_exist(name, part):
  """They take a GPU and days, so that nothing else would tell."""
  benchmark = _PROGRAMS[name].BENCHMARK
  own = {
      **benchmark.scales['paper'], **benchmark.parts[part],
      **benchmark.sizes[f'paper/{part}'],
  }
  table = compare_tuned.flag_table()
  assert set(own) <= set(table)
  variants = brackets.split_list(own['algos'])
  for variant, grid in grids.parse_grids(own['grid'], variants).items():
    with_rate = grids.with_options(variant, grid, grid.values[0])
    experiment.of_variant(with_rate, own, table)


def _handed(name, part, monkeypatch, folder, *argv):
  handed = []
  monkeypatch.setattr(
      compare_tuned, 'main', lambda given: handed.extend(given) or 2
  )
  _run(name, folder, f'--parts={part}', '--data_dir=/data', *argv)
  return dict(word[2:].split('=', 1) for word in handed if word[:2] == '--')


def test_the_table_has_a_method_of_each_family_and_the_best_baselines(
    monkeypatch, tmp_path
):
  found = _handed('benchmark_emnist', 'writers', monkeypatch, tmp_path)
  assert found['algos'] == real_data.algos()
  names = found['algos'].split(',')
  assert set(names) <= set(methods.names()) and len(set(names)) == 11
  assert names[:5] == list(real_data.FAMILIES)


def test_all_methods_that_run_on_the_task_can_be_asked_for(
    monkeypatch, tmp_path
):
  found = _handed(
      'benchmark_emnist', 'writers', monkeypatch, tmp_path, '--algos=all'
  )
  names = found['algos'].split(',')
  assert {'perm', 'scaffold', 'fedrolex', 'reptile'} <= set(names)
  # They need groups, or single messages, or have no rate of that name.
  assert not {
      'oracle_groups', 'fedasync', 'fedbuff', 'local_update'
  } & set(names)
  # All have the values of the grid.
  assert set(grids.parse_grids(found['grid'], names)) == set(names)
  found = _handed(
      'benchmark_emnist', 'partial', monkeypatch, tmp_path, '--algos=ditto'
  )
  assert found['algos'] == 'ditto'


@pytest.mark.parametrize('name,part', _PARTS)
def test_tasks_models_and_methods_exist(name, part):
  benchmark = _PROGRAMS[name].BENCHMARK
  for scale in real_data.SCALES:
    own = {**benchmark.parts[part], **benchmark.sizes[f'{scale}/{part}']}
    assert own['task'] in tasks.names()
    for algo in brackets.split_list(own['algos']):
      assert brackets.parse(algo)[0] in methods.names()
  assert set(benchmark.titles) == set(benchmark.parts)


def test_missing_data_are_one_sentence(tmp_path, capsys):
  (tmp_path / 'empty').mkdir()
  assert _run(
      'benchmark_emnist', tmp_path / 'runs', f'--data_dir={tmp_path}/empty'
  ) == 2
  assert '`--data_dir` must be a folder with' in capsys.readouterr().err
  assert not (tmp_path / 'runs').exists()


def test_variants_that_differ_in_pre_training_alone_are_the_paper_s():
  paper = published.EMNIST
  assert paper.of('fedavg') == 0.9318
  assert paper.of('local_ffgg[split=adapter,pretrain_rounds=96]') == 0.9426
  assert paper.of('local_ffgg[split=adapter,order=inexact]') is None
  assert paper.of('perm') is None


@pytest.mark.parametrize('name', _PROGRAMS)
def test_papers_say_how_their_setting_differs_at_every_scale(name):
  for part, paper in _PROGRAMS[name].BENCHMARK.published.items():
    assert set(paper.reduced) == set(real_data.SCALES), part
    assert all(0 < value < 1 for value in paper.accuracy.values())


@pytest.mark.parametrize('part', benchmark_floral.BENCHMARK.published)
def test_ablations_of_the_paper_are_variants_of_the_part(part):
  benchmark = benchmark_floral.BENCHMARK
  paper = benchmark.published[part]
  algos = brackets.split_list(benchmark.parts[part]['algos'])
  assert {algo for algo in algos if paper.of(algo)} >= set(paper.accuracy)
  assert set(paper.reduced) == set(benchmark.scales)


def test_numbers_stand_beside_the_paper_s(tmp_path):
  (tmp_path / 'summary.csv').write_text(
      'algo,accuracy_mean,pooled_accuracy_mean\n'
      'fedavg,0.75,0.7\nperm,0.8,0.8\nlocal_only,,\n'
  )
  paper = published.Published(
      'P, Table 1', {'fedavg': 0.9, 'local_only': 0.5, 'ditto': 0.3}, 'large',
      {'cpu': 'small', 'paper': ''},
  )
  # pylint: disable=protected-access
  sentence, table = tuned_parts._beside(paper, 'cpu', str(tmp_path))
  assert sentence == (
      'Beside P, Table 1; its setting: large. Both are means over clients.'
  )
  row, = table.splitlines()[2:]
  assert [cell.strip() for cell in row.split('|')[1:-1]] == [
      'fedavg', '0.7500', '0.9000', 'reduced: small'
  ]
  assert 'equal' in tuned_parts._beside(paper, 'paper', str(tmp_path))[1]
  by_example = paper._replace(measure='examples')
  sentence, table = tuned_parts._beside(by_example, 'cpu', str(tmp_path))
  assert sentence.endswith('Both are means over the test examples of all clients.')
  assert '0.7000' in table
  (tmp_path / 'tiers.csv').write_text(
      'algo,seed,tier,parameters,accuracy,loss\nfedavg,0,1,9,0.5,1\n'
      'fedavg,0,2,3,0.4,1\nfedavg,1,1,9,0.7,1\nfedavg,1,2,3,0.4,1\n'
  )
  largest = paper._replace(measure='largest')
  sentence, table = tuned_parts._beside(largest, 'cpu', str(tmp_path))
  assert sentence.endswith('of the largest model on common test data.')
  assert '0.6000' in table and '0.4000' not in table
