"""Methods and tasks of other packages: the example in `examples/plugin`."""

from importlib import metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from binaries import compare
from binaries import evaluate
from binaries import train
from tff_pers import plugins
from tff_pers.config import entry_points
from tff_pers.config import methods
from tff_pers.data import tasks
from tff_pers.experiments import flags
from tff_pers.experiments import plugin_imports
from tff_pers.experiments import startup
from tff_pers.testing import contracts
from tff_pers.testing import method_contract
from tff_pers.testing import registry_contract
from tff_pers.testing import task_contract

ROOT = pathlib.Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / 'examples' / 'plugin'

# A program after the other in one process, since TensorFlow takes long.
_PROGRAMS = """
from binaries import compare, train, tune
small = ['--task=moons', '--num_clients=4', '--rounds=2', '--eval_every=1']
codes = [
    train.main(['train', *small, '--algo=fednova', '--output_dir=train']),
    compare.main(['compare', *small, '--algos=fednova,fedavg', '--seeds=0',
                  '--output_dir=compare']),
    tune.main(['tune', *small, '--algos=fednova', '--trials=2', '--seeds=0',
               '--jobs=1', '--output_dir=tune']),
]
assert codes == [0, 0, 0], codes
"""


@pytest.fixture(scope='module', name='installed')
def _installed(tmp_path_factory):
  """The folder in which the example is installed, as pip does it, offline."""
  folder = tmp_path_factory.mktemp('installed')
  # Of a copy: pip leaves files where it builds.
  shutil.copytree(EXAMPLE, folder / 'source')
  subprocess.run(
      [
          sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps',
          '--no-build-isolation', '--no-index', '--disable-pip-version-check',
          '--target', str(folder / 'site'), str(folder / 'source'),
      ], check=True, timeout=300, stderr=subprocess.DEVNULL,
  )
  return folder / 'site'


def _run(arguments, folder, *path):
  """Runs Python in a folder of its own, with `path` on its path."""
  environment = {
      **os.environ, 'PYTHONPATH': os.pathsep.join(map(str, [*path, ROOT])),
  }
  return subprocess.run(
      [sys.executable, *arguments], cwd=folder, env=environment, check=False,
      capture_output=True, text=True, timeout=300,
  )


def test_an_installed_plugin_is_in_the_programs(installed, tmp_path):
  done = _run(['-c', _PROGRAMS], tmp_path, installed)
  assert done.returncode == 0, done.stdout + done.stderr
  assert 'left out' not in done.stderr
  summary = (tmp_path / 'compare' / 'summary.csv').read_text().splitlines()
  assert [row.split(',')[0] for row in summary[1:]] == ['fednova', 'fedavg']
  assert 'fednova' in (tmp_path / 'tune' / 'summary.csv').read_text()
  config = json.loads((tmp_path / 'train' / 'config.json').read_text())
  assert 'import' not in config['given']  # Nobody has to name what is found.


@pytest.mark.parametrize('some, passed', [
    # One of each battery: they are the same for all methods and tasks.
    ('type_signatures or every_sample or it_declares', '3 passed'),
    ('test', ' passed'),
])
def test_its_own_tests_pass(installed, tmp_path, some, passed):
  """The batteries for methods and tasks, by one import, in a place of its own."""
  shutil.copytree(EXAMPLE / 'tests', tmp_path / 'tests')
  done = _run(
      ['-m', 'pytest', '-q', '-p', 'no:cacheprovider', '-k', some, 'tests'],
      tmp_path, installed,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  assert passed in done.stdout


def test_its_tests_are_all_batteries():
  """What an import of another package brings, and one that fails says why."""
  brought = [name for name in vars(contracts) if name.startswith('test_')]
  assert len(brought) > 20
  for battery in (method_contract, registry_contract, task_contract):
    own = {name for name in vars(battery) if name.startswith('test_')}
    assert own and own <= set(brought)


_HELP = """
import runpy, sys
sys.argv = ['train', '--help', '--algo=fednova', '--task=moons']
try:
  runpy.run_module('binaries.train', run_name='__main__', alter_sys=True)
except SystemExit as end:
  found = {'tensorflow', 'tff_pers_example.fednova'} & set(sys.modules)
  print(end.code, found, file=sys.stderr)
"""


def test_the_help_knows_it_without_tensorflow(installed, tmp_path):
  done = _run(['-c', _HELP], tmp_path, installed)
  assert done.stderr == '0 set()\n'
  assert '--fednova_server_learning_rate' in done.stdout
  assert '--moons_noise' in done.stdout


_MODULE = 'method_of_this_test'


def _forget():
  """Makes this process one that knows nothing of the module."""
  sys.modules.pop(_MODULE, None)
  methods._METHODS._entries.pop(_MODULE, None)  # pylint: disable=protected-access


def test_a_module_is_imported_where_the_command_line_names_it(
    tmp_path, monkeypatch, capsys
):
  """`config.json` records it, and no file decides what is imported."""
  (tmp_path / f'{_MODULE}.py').write_text(
      'from baselines import fedavg\n'
      'from tff_pers import methods\n'
      f"methods.register('{_MODULE}', fedavg.FedAvgHyperparameters)(\n"
      '    lambda task, hyperparameters: fedavg.build_fedavg(\n'
      '        task.model, hyperparameters))\n'
  )
  monkeypatch.syspath_prepend(tmp_path)
  folder, named = tmp_path / 'run', f'--import={_MODULE}'
  again = (train, ('--resume', '--rounds=2', f'--output_dir={folder}'))
  try:
    assert train.main([
        'train', f'--output_dir={folder}', f'--algo={_MODULE}', '--rounds=1',
        '--task=synthetic_groups', '--num_clients=2', '--eval_every=1', named,
    ]) == 0
    _forget()
    for program, arguments in (
        (evaluate, (f'--run={folder}',)), (train, (f'--fork={folder}',)),
        (compare, (f'--config={folder}/config.json', f'--algos={_MODULE}')),
        again,
    ):
      assert program.main(['x', *arguments]) == 2
      assert capsys.readouterr().err.endswith(
          f"what code runs, found no '{_MODULE}'. Tip: if you trust them, add"
          f' {named}.\n'
      )
      assert _MODULE not in sys.modules
    for program, arguments in ((evaluate, (f'--run={folder}',)), again):
      assert program.main(['x', *arguments, named]) == 0
  finally:
    _forget()
  config = json.loads((folder / 'config.json').read_text())
  assert config['given']['import'] == _MODULE
  assert len((folder / 'metrics.csv').read_text().splitlines()) == 3


@pytest.mark.parametrize('argv', [
    ['--import=a.b,c'], ['--import', 'a.b,c'], ['-import=a.b,c'],
    ['--import=other', '--import=a.b,c'],
])
def test_what_is_asked_for(argv, monkeypatch):
  asked = []
  monkeypatch.setattr(plugins, 'import_named', asked.append)
  for words in ([*argv, '--algo=import=x', 'x'], ['--rounds=2', '-h']):
    assert flags.run('train', lambda given: 0, ['train', *words]) == 0
  assert asked == ['a.b,c', '']
  assert startup.take([*argv, '--algo', 'import=x', '-h'], 'import') == (
      'a.b,c', ['--algo', 'import=x', '-h']
  )


@pytest.mark.parametrize('text, sentence', [
    ('no_such.module', '`import`: Module no_such.module must be importable'
     " because it registers methods or tasks, found ModuleNotFoundError: No"
     " module named 'no_such'"),
    ('1x', "`import` must name modules, as my_package.my_method, found '1x'."),
])
def test_raises_on_a_module_that_cannot_be_imported(text, sentence):
  with pytest.raises(ValueError, match=sentence):
    plugins.import_named(text)


def test_a_program_says_so_in_one_sentence(capsys):
  code = flags.run('train', lambda argv: 0, ['train', '--import=no_such'])
  assert code == 2
  assert capsys.readouterr().err.startswith(
      'train: `--import`: Module no_such must be importable'
  )


@pytest.mark.parametrize('point, found', [
    (('mine', 'no_such_module', 'tff_pers.methods'),
     '`mine` of tff_pers.methods: Module no_such_module must be importable'),
    (('mine', 'json', 'tff_pers.tasks'),
     '`mine` of tff_pers.tasks: Module json must register the name mine'),
])
def test_a_broken_plugin_is_left_out(monkeypatch, capsys, point, found):
  """All others are there, and so are the programs."""
  monkeypatch.setattr(
      entry_points, 'of_plugins', lambda: (metadata.EntryPoint(*point),)
  )
  plugin_imports.load_installed.cache_clear()
  for _ in range(2):  # It is said once.
    flags.all_flags()
  plugin_imports.load_installed.cache_clear()
  printed = capsys.readouterr().err
  assert printed.count(f'An installed plug-in was left out. {found}') == 1
  assert 'fedavg' in methods.names() and 'digits' in tasks.names()
