"""The lists of planted faults fit the tree; what their runner says."""

import pathlib
import subprocess
import sys

import pytest
import yaml

from tests.mutants import faults

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_FAMILIES = faults.load()
_ROWS = [(family, row) for family, rows in _FAMILIES.items() for row in rows]


@pytest.mark.text
@pytest.mark.parametrize(
    'row', [row for _, row in _ROWS], ids=[f'{f}-{r.name}' for f, r in _ROWS]
)
def test_row_fits_the_tree(row):
  assert faults.error(row, _ROOT) is None


# A tree with one module, its test and lists of faults.
_TREE = {
    'setup.cfg': '[tool:pytest]\ntestpaths = tests\n',
    'tff_pers/__init__.py': '',
    'tff_pers/toy.py': 'def double(x):\n  return 2 * x\n',
    'tests/__init__.py': '',
    'tests/toy_test.py': (
        'import pytest\n'
        'from tff_pers import toy\n'
        '@pytest.mark.parametrize("x", [0, 3])\n'
        'def test_double(x):\n  assert toy.double(x) == x + x\n'
        'def test_sign():\n  assert toy.double(1) > 0\n'
        'def test_false():\n  assert toy.double(1) == 0\n'
    ),
}
_GOOD = dict(
    what='It triples.', at='tff_pers/toy.py::double', old='2 * x',
    new='3 * x', by='tests/toy_test.py::test_double',
)
_SIGN = 'tests/toy_test.py::test_sign'


@pytest.fixture(name='run')
def _run(tmp_path):
  """Returns `(rows by name) -> (exit code, output)` on the tree."""
  tree = tmp_path / 'tree'
  for name, text in _TREE.items():
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)

  def run(**rows):
    lists = tmp_path / 'lists'
    lists.mkdir()
    (lists / 'toys.yaml').write_text(yaml.safe_dump(rows, sort_keys=False))
    result = subprocess.run(
        [
            sys.executable, _ROOT / 'tests/mutants/run.py', f'--root={tree}',
            f'--lists={lists}', '--preload=pytest', '--jobs=2',
        ],
        capture_output=True, text=True, check=False, timeout=120,
    )
    for name, text in _TREE.items():  # Faults are planted in copies.
      assert (tree / name).read_text() == text
    assert not list(tree.rglob('__pycache__'))
    return result.returncode, result.stdout + result.stderr

  return run


def test_runner_tells_caught_from_missed(run):
  code, output = run(
      triple=_GOOD, unseen=dict(_GOOD, by=_SIGN),
      seen=dict(_GOOD, new='-2 * x', by=_SIGN),
  )
  assert code == 1
  assert 'toys              3       2       1       0' in output
  assert 'test_double[3] (AssertionError)' in output
  assert 'MISSED toys: unseen (tff_pers/toy.py): It triples.' in output


def test_runner_is_content_if_all_are_caught(run):
  code, output = run(triple=_GOOD)
  assert code == 0, output


_WRONG = (
    (dict(old='4 * x'), 'exactly once in tff_pers/toy.py::double, found 0 times'),
    (dict(old='x'), 'exactly once in tff_pers/toy.py::double, found 2 times'),
    (dict(new='2 * x'), '`new` must differ'),
    (dict(new='2 *'), 'no Python'),
    (dict(at='tff_pers/toys.py'), 'no file tff_pers/toys.py'),
    (dict(at='tff_pers/toy.py::triple'), 'no tff_pers/toy.py::triple'),
    (dict(by='tests/toy_test.py::test_triple'), 'no test'),
    (dict(by=[]), 'at least one test'),
    (
        dict(by='tests/toy_test.py::test_false'),
        'test_false fails without the fault',
    ),
)


def test_runner_refuses_wrong_rows(run):
  code, output = run(**{
      f'wrong{i}': _GOOD | changes for i, (changes, _) in enumerate(_WRONG)
  })
  assert code == 1
  summary = output.partition('in all')[2].splitlines()
  assert f'toys        {len(_WRONG):7}       0       0 {len(_WRONG):7}' in output
  for line, (_, message) in zip(summary[1:], _WRONG):
    assert line.startswith('ERROR toys: wrong') and message in line, output
