"""The benchmarks on real data: what they hand on, and their scale `smoke`.

The scale runs on real samples if TFF_PERS_DATA_DIR names their folder, else on
small generated files in the original formats.
"""

import os

import pytest

from binaries import benchmark
from tests.binaries import real_data_files
from tff_pers.data import brackets
from tff_pers.evaluation import grids
from tff_pers.experiments import benchmark_runs
from tff_pers.experiments import benchmarks
from tff_pers.experiments import flags

_BENCHMARKS = {
    name: benchmark_runs.read(name)
    for name in ('cifar', 'emnist', 'personalization', 'stackoverflow')
}
_SCALES = ('cpu', 'smoke', 'paper')
_FLORAL = benchmark_runs.read('floral')
_DATA_DIR = os.environ.get('TFF_PERS_DATA_DIR', '')


@pytest.fixture(name='data', scope='module')
def fixture_data(tmp_path_factory):
  if _DATA_DIR:
    return _DATA_DIR
  folder = tmp_path_factory.mktemp('data')
  real_data_files.write(folder)
  return str(folder)


def _run(name, folder, *argv):
  return benchmark.main(['benchmark', name, *argv, f'--output_dir={folder}'])


# Images and text in every run of the tests; another program, and further kinds
# of models and clients, where there is time. Other parts differ in flags.
_SMOKE = [
    ('cifar', ('groups',)),
    ('emnist', ('partial',)),
    ('stackoverflow', ('tags',)),
    # Slow ones.
    ('cifar', ('groups', 'tiers')),
    ('emnist', ('partial', 'writers')),
    ('personalization', ('roles',)),
    ('stackoverflow', ('tags', 'words')),
]


@pytest.mark.parametrize('name,parts', _SMOKE)
def test_smoke_writes_a_page_with_command_and_tables(
    name, parts, data, tmp_path, capsys
):
  assert _run(
      name, tmp_path / 'runs', '--scale=smoke', f'--data_dir={data}',
      f'--parts={",".join(parts)}',
  ) == 0
  own = _BENCHMARKS[name]
  page = (tmp_path / 'runs' / own.page).read_text()
  assert page in capsys.readouterr().out
  head, *tables = page.split('\n## ')
  assert f'python -m binaries.benchmark {name} --scale=smoke' in head
  assert '--data_dir=DATA' in head and data not in page
  for part, table in zip(parts, tables):
    assert table.startswith(own.parts[part].title)
    assert '| algo' in table
    paper = own.parts[part].published
    if paper is not None:
      assert paper.source in table and 'reduced: ' in table
  new = {'emnist': 'partial', 'personalization': 'roles'}
  if name in new:
    assert 'new_accuracy' in tables[parts.index(new[name])]


def test_numbers_of_one_table_can_be_compared_with_those_of_another():
  """The same methods, grids of rates and scales."""
  rates, tables = {}, set()
  for own in _BENCHMARKS.values():
    assert own.scales == _BENCHMARKS['emnist'].scales
    assert tuple(own.scales) == _SCALES
    for part in own.parts.values():
      assert set(part.scales) == set(_SCALES)
      task, grid = part.flags['task'], part.flags['grid']
      assert rates.setdefault(task, grid) == grid
      if 'perfedavg' in part.flags.get('algos', ''):
        # Steps of adaptation are of the order of the rates, which tags have
        # large.
        algos = part.flags['algos'].replace('local_ffgg,', '').replace(
            'perfedavg[a=300]', 'perfedavg'
        )
        # The model of tags has one layer, of which nothing can be private.
        assert ('local_ffgg' in part.flags['algos']) == (
            task != 'stackoverflow_tags'
        )
        tables.add(algos)
  assert len(tables) == 1


def test_all_methods_that_run_on_the_task_can_be_asked_for(
    monkeypatch, tmp_path
):
  handed = []
  monkeypatch.setattr(
      flags.Program, '__call__', lambda own, argv: handed.append(argv) or 2
  )
  for part, algos in (('writers', 'all'), ('partial', 'ditto')):
    _run(
        'emnist', tmp_path, f'--parts={part}', '--data_dir=/data',
        f'--algos={algos}',
    )
  found, few = (
      dict(word[2:].split('=', 1) for word in argv if word[:2] == '--')
      for argv in handed
  )
  names = found['algos'].split(',')
  assert {'perm', 'scaffold', 'fedrolex', 'reptile'} <= set(names)
  # They need groups, or single messages, or have no rate of that name.
  assert not {
      'oracle_groups', 'fedasync', 'fedbuff', 'local_update'
  } & set(names)
  # All have the values of the grid.
  assert set(grids.parse_grids(found['grid'], names)) == set(names)
  assert few['algos'] == 'ditto'


def test_missing_data_are_one_sentence(tmp_path, capsys):
  (tmp_path / 'empty').mkdir()
  assert _run(
      'emnist', tmp_path / 'runs', f'--data_dir={tmp_path}/empty'
  ) == 2
  assert '`--data_dir` must be a folder with' in capsys.readouterr().err
  assert not (tmp_path / 'runs').exists()


def test_variants_that_differ_in_pre_training_alone_are_the_paper_s():
  paper = _BENCHMARKS['emnist'].parts['partial'].published
  assert paper.of('fedavg') == 0.9318
  assert paper.of('local_ffgg[split=adapter,pretrain_rounds=96]') == 0.9426
  assert paper.of('local_ffgg[split=adapter,order=inexact]') is None
  assert paper.of('perm') is None


@pytest.mark.parametrize(
    'part', [name for name, part in _FLORAL.parts.items() if part.published]
)
def test_ablations_of_the_paper_are_variants_of_the_part(part):
  paper = _FLORAL.parts[part].published
  algos = brackets.split_list(_FLORAL.parts[part].flags['algos'])
  assert {algo for algo in algos if paper.of(algo)} >= set(paper.values)


@pytest.mark.parametrize('measure, words, value', [
    ('half_loss', 'clients of half the mean squared error.', '0.1500'),
    ('new_clients', 'Both are means over clients that never train.', '0.6500'),
    ('examples', 'means over the test examples of all clients.', '0.7000'),
    ('largest', 'of the largest model on common test data.', '0.6000'),
])
def test_numbers_stand_beside_the_paper_s(measure, words, value, tmp_path):
  (tmp_path / 'summary.csv').write_text(
      'algo,accuracy_mean,pooled_accuracy_mean,loss_mean,new_accuracy_mean\n'
      'fedavg,0.75,0.7,0.3,0.65\nperm,0.8,0.8,0.2,0.1\nlocal_only,,,,\n'
  )
  (tmp_path / 'tiers.csv').write_text(
      'algo,seed,tier,parameters,accuracy,loss\nfedavg,0,1,9,0.5,1\n'
      'fedavg,0,2,3,0.4,1\nfedavg,1,1,9,0.7,1\nfedavg,1,2,3,0.4,1\n'
  )
  paper = benchmarks.Published(
      'P, Table 1', 'large', {'cpu': 'small', 'paper': ''},
      {'fedavg': 0.9, 'local_only': 0.5, 'ditto': 0.3},
  )
  sentence, table = benchmark_runs.beside(paper, 'cpu', str(tmp_path))
  assert sentence == (
      'Beside P, Table 1; its setting: large. Both are means over clients.'
  )
  row, = table.splitlines()[2:]
  assert [cell.strip() for cell in row.split('|')[1:-1]] == [
      'fedavg', '0.7500', '0.9000', 'reduced: small'
  ]
  assert 'equal' in benchmark_runs.beside(paper, 'paper', str(tmp_path))[1]
  other = paper._replace(measure=measure)
  sentence, table = benchmark_runs.beside(other, 'cpu', str(tmp_path))
  assert sentence.endswith(words)
  assert value in table and '0.4000' not in table
