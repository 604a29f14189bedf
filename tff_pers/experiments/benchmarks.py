"""Reads benchmarks from `binaries/benchmarks/*.yaml`, and settings of others.

Values are kept as texts, as typed on the command line, because YAML would
convert some (`100:150` to 6150) and not others (`1e-4` stays a text). A list
becomes one text with commas. `shared` only holds anchors.
"""

import collections
import os
import pathlib
import re
import typing
from typing import Any, Literal, Mapping, NamedTuple, Optional, Union

import yaml

from tff_pers.data import brackets

FOLDER = pathlib.Path(__file__).parents[2] / 'binaries' / 'benchmarks'
# Descriptions of what a paper's numbers are.
MEASURES = {
    'clients': 'means over clients',
    'examples': 'means over the test examples of all clients',
    'new_clients': 'means over clients that never train',
    'largest': 'accuracies of the largest model on common test data',
    'half_loss': 'means over clients of half the mean squared error',
}
# Key of options that several methods share.
_METHOD_OPTIONS = 'method_options'


class Flags(dict[str, str]):
  """Flags by name, as typed."""


class Published(NamedTuple):
  """Published results on the task of a part, shown for comparison only.

  Attributes:
    source: Paper and table.
    setting: The paper's setting.
    differs: How ours differs, by value of `--scale`; '': not at all.
    values: Test accuracy in [0, 1], or loss, by the variant that corresponds to
      the paper's method.
    measure: What the values are: a key of `MEASURES`.
    pipeline: Options of a variant that belong to the setting, not to the
      method.
  """

  source: str
  setting: str
  differs: Mapping[str, str]
  values: Mapping[str, float]
  measure: Literal[
      'clients', 'examples', 'new_clients', 'largest', 'half_loss'
  ] = 'clients'
  pipeline: tuple[str, ...] = ('pretrain_rounds',)

  def of(self, variant: str) -> Optional[float]:
    """Returns the paper's value of a variant, or None."""
    name, options = brackets.parse(variant)
    for option in self.pipeline:
      options.pop(option, None)
    for known, value in self.values.items():
      if brackets.parse(known) == (name, options):
        return value
    return None


class Part(NamedTuple):
  """One of a benchmark's comparisons.

  Attributes:
    title: Its headline.
    flags: Flags of `compare_tuned`.
    scales: Further flags by value of `--scale`, which override `flags`.
    embedded: Whether the data come with the project, so that `--data_dir` is
      not used.
    published: Published results on the task.
  """

  title: str
  flags: Flags
  scales: Mapping[str, Flags] = {}
  embedded: bool = False
  published: Optional[Published] = None


class Benchmark(NamedTuple):
  """A benchmark.

  Attributes:
    help: Beginning of the `--help` text.
    title: Headline of its page.
    note: Explanation of the numbers on its page.
    page: File name of the page.
    scales: Flags of `compare_tuned` by value of `--scale`, the default first;
      flags of methods that a part does not run are dropped.
    parts: Comparisons by name, whose flags override those of scales; empty: the
      benchmark is one comparison, whose page shows virtual times.
  """

  help: str
  title: str
  note: str
  page: str
  scales: Mapping[str, Flags]
  parts: Mapping[str, Part] = {}

  def flags(self, scale: str, part: str) -> dict[str, str]:
    """Returns the flags of `compare_tuned` of a part at a scale."""
    own = self.parts[part]
    return {
        **self.scales[scale], **own.flags, **own.scales.get(scale, {}),
    }


class Claim(NamedTuple):
  """Arguments of `orderings.check`."""

  expect: str
  metric: str = 'accuracy'
  in_seeds: int = 0


class Setting(NamedTuple):
  """Flags of a program, and claims about its results.

  Attributes:
    flags: The flags.
    files: Whether its data are in `--data_dir`.
    claims: Claims about accuracies.
    visits: Whether every round of PERM's visits must have at least one, and no
      metric of a round may be NaN.
    new_clients: Largest accuracy by which clients that never trained may be
      below those that did; None: there are no such clients.
  """

  flags: Flags
  files: bool = False
  claims: tuple[Claim, ...] = ()
  visits: bool = False
  new_clients: Optional[float] = None


class Settings(NamedTuple):
  """What a program runs one by one.

  Attributes:
    help: Beginning of its `--help` text.
    settings: The settings by name.
    note: Explanation of the numbers on its page.
  """

  help: str
  settings: Mapping[str, Setting]
  note: str = ''


class _Loader(yaml.SafeLoader):
  """Keeps scalars as typed; supports anchors and merge keys."""

  yaml_implicit_resolvers = {
      '<': [('tag:yaml.org,2002:merge', re.compile('^<<$'))]
  }

  def compose_mapping_node(self, anchor):
    node = super().compose_mapping_node(anchor)
    keys = [key.value for key, _ in node.value]
    for i, (key, _) in enumerate(node.value):
      if key.value in keys[:i]:
        raise yaml.MarkedYAMLError(
            problem=f'the key {key.value} occurs twice',
            problem_mark=key.start_mark,
        )
    return node


def read(path: str) -> Benchmark:
  """Returns the benchmark that a file describes.

  Raises:
    ValueError: If the file is not YAML, or a key is unknown, missing, or has a
      value of the wrong kind; the message says where.
  """
  return _parsed(Benchmark, _content(path), os.path.basename(path))


def read_settings(path: str) -> Settings:
  """Returns the settings that a file describes.

  Raises:
    ValueError: As `read`.
  """
  return _parsed(Settings, _content(path), os.path.basename(path))


def _content(path: str) -> dict[str, Any]:
  """Returns the mapping in a YAML file, without `shared`."""
  where = os.path.basename(path)
  with open(path, encoding='utf-8') as file:
    try:
      content = yaml.load(file, Loader=_Loader)
    except yaml.YAMLError as error:
      text = ' '.join(str(error).split())
      raise ValueError(f'{where} must be YAML, found: {text}.') from error
  content = _mapping(content, where)
  content.pop('shared', None)
  return content


def _mapping(value: Any, where: str) -> dict[str, Any]:
  if not isinstance(value, dict):
    raise ValueError(f'{where} must be a mapping, found {value!r}.')
  return value


def _text(value: Any, where: str, comma: str = ',') -> str:
  """Returns a text unchanged, or a list's items joined into one."""
  items = value if isinstance(value, list) else [value]
  if not all(isinstance(item, str) for item in items):
    raise ValueError(f'{where} must be a text or a list, found {value!r}.')
  return comma.join(items)


def _flags(value: Any, where: str) -> Flags:
  """Returns flags by name."""
  flags = Flags()
  for name, own in _mapping(value, where).items():
    place = f'{where}, {name}'
    if name != _METHOD_OPTIONS:
      flags[name] = _text(own, place, ';' if name == 'grid' else ',')
      continue
    for options in own if isinstance(own, list) else [own]:
      options = _parsed(Mapping[str, str], options, place)
      if 'methods' not in options:
        raise ValueError(f'{place} must have the key methods, found none.')
      flags.update({
          f'{algo}_{option}': text
          for algo in brackets.split_list(options.pop('methods'))
          for option, text in options.items()
      })
  return flags


def _parsed(kind: Any, value: Any, where: str) -> Any:
  """Returns a value in a file as an object of a type of this module."""
  origin, arguments = typing.get_origin(kind), typing.get_args(kind)
  if kind is Flags:
    return _flags(value, where)
  if hasattr(kind, '_fields'):
    return _named_tuple(kind, _mapping(value, where), where)
  if origin is collections.abc.Mapping:
    return {
        name: _parsed(arguments[1], own, f'{where}, {name}')
        for name, own in _mapping(value, where).items()
    }
  if origin is Union:  # With None, the default.
    return _parsed(arguments[0], value, where)
  if origin is tuple:
    items = value
    if not isinstance(value, list):
      items = brackets.split_list(_text(value, where))
    return tuple(_parsed(arguments[0], item, where) for item in items)
  text = _text(value, where)
  if kind in (int, float):
    if not re.fullmatch(r'\d+' if kind is int else r'\d*\.?\d+', text):
      raise ValueError(f'{where} must be a number, found {text!r}.')
    return kind(text)
  choices = ('true', 'false') if kind is bool else arguments
  if choices and text not in choices:
    raise ValueError(
        f'{where} must be one of {", ".join(choices)}, found {text!r}.'
    )
  return text == 'true' if kind is bool else text


def _named_tuple(kind: Any, found: Mapping[str, Any], where: str) -> Any:
  """Returns a named tuple whose fields are the keys of a mapping."""
  hints = typing.get_type_hints(kind)
  for key in found:
    if key not in hints:
      raise ValueError(
          f'{where} must have keys among {", ".join(hints)}, found {key!r}.'
      )
  for key in hints:
    if key not in found and key not in kind._field_defaults:
      raise ValueError(f'{where} must have the key {key}, found none.')
  return kind(**{
      key: _parsed(hints[key], own, f'{where}, {key}')
      for key, own in found.items()
  })
