"""Reads flags from `--config=run.yaml`, or from a run's `config.json`.

    # run.yaml
    algo: perm[lambda=5]
    task: digits
    rounds: 60

Texts are kept as typed and parsed like flags on the command line, because YAML
would convert some (`1:30` to 90, `no` to false) and not others (`1e-3` stays a
text). The file is only parsed; no object is built, so it cannot run code.
"""

from typing import NamedTuple

import yaml

# Scalars that are texts, numbers or booleans.
_PLAIN = frozenset(
    f'tag:yaml.org,2002:{kind}' for kind in ('str', 'int', 'float', 'bool')
)
# Key of a run's `config.json` that holds the flags that were given.
_OF_A_RUN = ('variant', 'given')


class Entry(NamedTuple):
  """The value of a flag and its line.

  Attributes:
    text: The value as typed on the command line.
    line: Its line in the file, from 1.
  """

  text: str
  line: int


def read(path: str) -> dict[str, Entry]:
  """Returns the flags in a file by name, without checking the names.

  From a run's `config.json`, these are the flags given when it was started.

  Raises:
    ValueError: If the file cannot be read or is not a mapping of distinct names
      to single values.
  """
  try:
    with open(path, encoding='utf-8-sig') as file:
      root = yaml.compose(file.read(), Loader=yaml.SafeLoader)
  except OSError as error:
    raise ValueError(
        f'`config` must name a file that can be read, found {path}'
        f' ({error.strerror}).'
    ) from error
  except (UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
    raise ValueError(
        f'`config` must name a YAML file, found {path}{_place(error)}.'
    ) from error
  entries = _mapping(path, root)
  if all(name in entries for name in _OF_A_RUN):
    entries = _mapping(path, entries['given'])
  return {
      name: Entry(_text(path, name, node), node.start_mark.line + 1)
      for name, node in entries.items()
  }


def _mapping(path: str, node) -> dict[str, yaml.Node]:
  """Returns the values of a mapping by their keys."""
  if not isinstance(node, yaml.MappingNode):
    found = 'nothing' if node is None else f'a {node.id}'
    raise ValueError(
        f'`config` must name a file of flags such as `rounds: 60`, found'
        f' {found} in {path}.'
    )
  values: dict[str, yaml.Node] = {}
  for key, value in node.value:
    line = key.start_mark.line + 1
    if not isinstance(key, yaml.ScalarNode):
      raise ValueError(
          f'{path}, line {line}: a flag must have a name, found a {key.id}.'
      )
    if key.value in values:
      raise ValueError(
          f'{path}, line {line}: a flag must be given once, found {key.value}'
          f' again after line {values[key.value].start_mark.line + 1}.'
      )
    values[key.value] = value
  return values


def _text(path: str, name: str, node: yaml.Node) -> str:
  """Returns the text of a single value."""
  if isinstance(node, yaml.ScalarNode) and node.tag in _PLAIN:
    return node.value
  found = f'a {node.id}'
  if isinstance(node, yaml.ScalarNode):
    found = node.tag if node.value else 'none'
  raise ValueError(
      f'{path}, line {node.start_mark.line + 1}: {name} must have one value, as'
      f' on the command line, found {found}.'
  )


def _place(error: Exception) -> str:
  """Returns where and why parsing stopped."""
  if isinstance(error, RecursionError):
    return ', which is nested too deeply'
  if not isinstance(error, yaml.MarkedYAMLError):
    return f' ({" ".join(str(error).split())[:200]})'
  return f', line {error.problem_mark.line + 1} ({error.problem})'
