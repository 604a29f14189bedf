"""Snippets of README and docs: Python is run, commands are read.

What cannot be run here is in `_NOT_RUN` and `_OTHER_PROGRAMS`, with the reason.
"""

import ast
import importlib
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from tff_pers import plugins
from tff_pers.config import methods
from tff_pers.data import brackets
from tff_pers.experiments import flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / 'README.md', ROOT / 'SECURITY.md', *sorted((ROOT / 'docs').rglob('*.md'))
]

# Texts in Python snippets, and why they are only compiled.
_NOT_RUN = {
    "remote.use(['host1:8000'": 'Needs two other machines.',
    "binaries.train.main(['train'": 'A training of a minute.',
    'adaptors.floral(model': 'examples/lora_transformer.py runs it.',
    'adapted.merge(weights': 'examples/lora_transformer.py runs it.',
    'fused.use(strategy=NAME)': 'NAME stands for several.',
    'fused.use(choices=PATH)': 'PATH stands for any.',
    'gamma=..., alpha=...': 'What goes there is said above it.',
}
_SHORTER = {
    'train_total_rounds=100': 'train_total_rounds=2',
    'num_clients=4, rounds=20': 'num_clients=4, rounds=1',
}
# What pages talk about, made before them.
_SETUP = """
import numpy as np
import tensorflow as tf
import tff_pers.plugins
from baselines import fedavg
from tff_pers import models, runtime
from tff_pers.data import client_data
from tff_pers.models import export
from tff_pers.runtime import fused
from tff_pers.simulation import data_source, learning_process

keras_model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
process = fedavg.build_fedavg(
    models.from_keras(keras_model, tf.keras.losses.MeanSquaredError(),
                      y_spec=tf.TensorSpec([None, 2])),
    fedavg.FedAvgHyperparameters(local_steps=1, batch_size=4))
x = np.ones([4, 3], np.float32)
data = [client_data.dense(i, x, np.ones([4, 2], np.float32)) for i in range(10)]
runtime.use('fused')
state, client_state, num_clients = process.initialize(), (), 10
load, sizes = lambda position: (x, x[:, :2]), [4, 4]
"""
_SETUP_OF = {
    'after_training.md': """
data, path = data[0], 'client_a'
weights = export.export_saved_model(process, state, data, path)
export.save_model(process.deployed, weights, path, export.Serving(
    dict(age=tf.TensorSpec([None], tf.float64),
         colour=tf.TensorSpec([None], tf.string)),
    lambda raw: tf.ones([tf.size(raw['age']), 3]),
    lambda outputs: dict(label=outputs[:, 0], probabilities=outputs),
    ['no', 'yes']))
""",
    'tf.keras.models.load_model': """
path = export.save('keras', process.deployed, weights, 'client_a')
""",
}
_CHECK = {
    'README.md': """
import pathlib
assert pathlib.Path('mine.npz').exists()
""",
    'building_blocks.md': "assert output.state['round'] == 1",
    'model.score(columns)': 'assert answers["probabilities"].shape == (2, 2)',
}


def _calls(text):
  """Whether a text is Python that calls something of a module or object."""
  try:
    tree = ast.parse(text)
  except SyntaxError:
    return False
  return any(
      isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
      for node in ast.walk(tree)
  )


def _blocks(text):
  """Returns the indented blocks of a page, outside of fences and lists."""
  text = re.sub(r'```.*?```', '', text, flags=re.DOTALL)
  found = re.findall(r'(?:^|\n\n)((?:    .*\n?)+)', text)
  return [re.sub('^    ', '', block, flags=re.MULTILINE) for block in found]


def _inline(text):
  text = re.sub(r'```.*?```', '', text, flags=re.DOTALL)
  return [' '.join(s.split()) for s in re.findall(r'`([^`]+)`', text)]


def _python(page):
  """Returns the Python snippets of a page: blocks, then those in the text."""
  text = page.read_text()
  fenced = re.findall(r'```python\n(.*?)```', text, re.DOTALL)
  others = [code for code in _blocks(text) + _inline(text) if _calls(code)]
  return fenced + others


def _script():
  """Returns a program that runs the snippets of all pages, and what is left."""
  lines, left = [], []
  for page in PAGES:
    snippets = _python(page)
    if not snippets:
      continue
    parts = ["runtime.use('fused')", _SETUP_OF.get(page.name, '')]
    for code in snippets:
      why = [text for text in _NOT_RUN if text in code]
      left += why
      if why:
        compile(code, page.name, 'exec')
        continue
      for long, short in _SHORTER.items():
        code = code.replace(long, short)
      before = [c for text, c in _SETUP_OF.items() if code.startswith(text)]
      after = [c for text, c in _CHECK.items() if text in code]
      parts += [*before, code, *after]
    parts.append(_CHECK.get(page.name, ''))
    lines.append(
        f'exec(compile({chr(10).join(parts)!r}, {page.name!r}, "exec"),'
        ' dict(globals()))'
    )
  return '\n'.join([_SETUP, *lines]), left


def test_every_python_snippet_runs(tmp_path):
  """All pages in one process, each from top to bottom."""
  script, left = _script()
  assert set(left) == set(_NOT_RUN)  # None of them is there for nothing.
  assert all(short in script for short in _SHORTER.values())
  done = subprocess.run(
      [sys.executable, '-c', script], cwd=tmp_path, capture_output=True,
      text=True, timeout=300, check=False,
      env={
          **os.environ,
          'PYTHONPATH': f'{ROOT}{os.pathsep}{ROOT / "examples/plugin"}',
      },
  )
  assert done.returncode == 0, done.stderr[-2000:]


# What a shell does itself, and programs that are not ours.
_OTHER_PROGRAMS = {
    'pip': 'installs', 'python3.11': 'makes an environment', '.': 'enters it',
    '.venv/bin/python': 'installs', 'openssl': 'makes certificates',
    'ssh': 'needs another machine', 'kubectl': 'needs a cluster', 'done': 'shell',
}
# Values that stand for others: of such a flag only the name is looked at.
_PLACEHOLDER = re.compile(r'\.\.\.|[A-Z]+|.*\$.*')


def _lines(block):
  """Returns the commands of a block: continued lines and quotes are joined."""
  commands, before = [], ''
  for line in block.replace('\\\n', ' ').splitlines():
    line = f'{before} {line.strip()}'.strip()
    try:
      words = shlex.split(line, comments=True)
    except ValueError:  # A quotation that goes on in the next line.
      before = line
      continue
    before = ''
    if words:
      commands.append(words)
  assert not before, before
  return commands


def _is_shell(block):
  first = block.split(None, 1)[0]
  return first in ('python', 'make', 'for', *_OTHER_PROGRAMS) or re.match(
      r'[A-Z]+=', first
  )


def _commands():
  """Returns all commands of all pages, each once."""
  found = {}
  for page in PAGES:
    text = page.read_text()
    for block in _blocks(text):
      assert _is_shell(block) or 'python -m' not in block, block
      for words in _lines(block) if _is_shell(block) else ():
        found[tuple(words)] = None
    for code in _inline(text):
      if re.match('(python|make) ', code):
        found[tuple(shlex.split(code))] = None
  return list(found)


class _Read(Exception):
  """A program has read its flags."""


def _reading(parse):
  """Returns `flags.parse`, which ends a program after it has read its flags."""

  def read(argv, table):
    values = []
    for word in argv[1:]:
      name, _, value = word.lstrip('-').partition('=')
      if _PLACEHOLDER.fullmatch(value) or name.startswith('my_'):
        assert name in table or name.startswith('my_'), word
      else:
        values.append(word)
    given = parse([argv[0], *values], table)
    for variant in brackets.split_list(given.get('algos', given.get('algo', ''))):
      name, options = brackets.parse(variant)
      if not name.startswith('my_'):
        assert name in methods.names(), variant
        recipe = dict(options).pop('recipe', None)
        assert recipe is None or recipe in methods.get(name).recipes, variant
        for option in set(options) - {'recipe'}:
          assert f'{name}_{option}' in table or option in table, variant
    raise _Read

  return read


@pytest.mark.parametrize('words', _commands(), ids=' '.join)
def test_every_command_is_one(words, monkeypatch, tmp_path):
  """Its program exists and takes these flags; nothing is trained."""
  first, *arguments = words
  if first == 'make':
    targets = re.findall(r'^([\w-]+):', (ROOT / 'Makefile').read_text(), re.M)
    assert set(arguments) <= set(targets)
    return
  if first != 'python':
    assert first in _OTHER_PROGRAMS or first == 'for' or '=' in first
    return
  if arguments[0] != '-m':
    path = arguments[0].replace('NAME', 'perm_on_keras')
    assert path == 'TESTS/run.py' or (ROOT / path).exists()
    return
  module, *arguments = arguments[1:]
  if module in ('pytest', 'pdb'):
    paths = [word for word in arguments if word.startswith('tests/')]
    assert all((ROOT / path).exists() for path in paths)
    return
  source = ROOT / (module.replace('.', '/') + '.py')
  assert source.exists(), module
  if module == 'binaries.worker':
    source = ROOT / 'tff_pers/runtime/serving/host.py'  # Its flags are there.
  if 'DEFINE_' in source.read_text():
    # Importing it would define its flags for all.
    for name in (word[2:].split('=')[0] for word in arguments):
      assert re.search(rf"'{name}'|\b{name}='", source.read_text()), name
    return
  if not module.startswith('binaries.') or module.count('.') > 1:
    return  # They take no flags.
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(flags, 'parse', _reading(flags.parse))
  monkeypatch.setattr(plugins, 'import_named', lambda text: None)
  if '--help' in arguments:
    arguments.remove('--help')
  with pytest.raises(_Read):
    importlib.import_module(module).main([module, *arguments])
