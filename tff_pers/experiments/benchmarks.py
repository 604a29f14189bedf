"""Reads benchmarks from `binaries/benchmarks/*.yaml`, and settings of others.

Values are kept as texts, as typed on the command line, because YAML would
convert some (`100:150` to 6150) and not others (`1e-4` stays a text). A list
becomes one text with commas. `shared` only holds anchors.
"""

import os
import re
from typing import Any, Callable, Mapping, NamedTuple, Optional

import yaml

from tff_pers.data import brackets

# Descriptions of what a paper's accuracies measure.
MEASURES = {
    'clients': 'means over clients',
    'examples': 'means over the test examples of all clients',
    'largest': 'accuracies of the largest model on common test data',
}
# Key of options that several methods share.
_METHOD_OPTIONS = 'method_options'

Flags = Mapping[str, str]


class Published(NamedTuple):
  """Published results on the task of a part, shown for comparison only.

  Attributes:
    source: Paper and table.
    setting: The paper's setting.
    differs: How ours differs, by value of `--scale`; '': not at all.
    accuracy: Test accuracy in [0, 1], by the variant that corresponds to the
      paper's method.
    measure: What the paper's accuracy measures: a key of `MEASURES`.
    pipeline: Options of a variant that belong to the setting, not to the
      method.
  """

  source: str
  setting: str
  differs: Mapping[str, str]
  accuracy: Mapping[str, float]
  measure: str = 'clients'
  pipeline: tuple[str, ...] = ('pretrain_rounds',)

  def of(self, variant: str) -> Optional[float]:
    """Returns the paper's accuracy of a variant, or None."""
    name, options = brackets.parse(variant)
    for option in self.pipeline:
      options.pop(option, None)
    for known, accuracy in self.accuracy.items():
      if brackets.parse(known) == (name, options):
        return accuracy
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
    chooses_algos: Whether `--algos` may name methods beyond the table's.
  """

  help: str
  title: str
  note: str
  page: str
  scales: Mapping[str, Flags]
  parts: Mapping[str, Part] = {}
  chooses_algos: bool = False

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
  where = os.path.basename(path)
  benchmark = _BENCHMARK(_content(path), where)
  for name, part in benchmark.parts.items():
    place = f'{where}, parts, {name}'
    _check_scales(benchmark, part.scales, f'{place}, scales')
    for scale in benchmark.scales:
      if not {'algos', 'task'} <= set(benchmark.flags(scale, name)):
        raise ValueError(
            f'{place} must have the flags algos and task, found one of them'
            f' missing at the scale {scale}.'
        )
    if part.published is not None:
      place += ', published, differs'
      _check_scales(benchmark, part.published.differs, place)
      for scale in benchmark.scales:
        if scale not in part.published.differs:
          raise ValueError(f'{place} must have every scale, found no {scale}.')
  return benchmark


def read_settings(path: str) -> Settings:
  """Returns the settings that a file describes.

  Raises:
    ValueError: As `read`.
  """
  return _SETTINGS(_content(path), os.path.basename(path))


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


def _check_scales(
    benchmark: Benchmark, found: Mapping[str, Any], where: str
) -> None:
  for scale in found:
    if scale not in benchmark.scales:
      raise ValueError(
          f'{where} must be among {", ".join(benchmark.scales)}, found {scale}.'
      )


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


def _items(value: Any, where: str) -> tuple[str, ...]:
  return tuple(brackets.split_list(_text(value, where)))


def _share(value: Any, where: str) -> float:
  """Returns a number in [0, 1]."""
  if not re.fullmatch(r'[01]|0\.\d+', _text(value, where)):
    raise ValueError(f'{where} must be a number in [0, 1], found {value!r}.')
  return float(value)


def _number(kind: Callable[[str], Any]) -> Callable[[Any, str], Any]:
  """Returns a reader of numbers of a kind."""
  def reader(value, where):
    text = _text(value, where)
    if not re.fullmatch(r'[0-9.]+', text):
      raise ValueError(f'{where} must be a number, found {text!r}.')
    return kind(text)
  return reader


def _one_of(values: Mapping[str, Any]) -> Callable[[Any, str], Any]:
  """Returns a reader that maps a key of `values` to its value."""
  def reader(value, where):
    if _text(value, where) not in values:
      raise ValueError(
          f'{where} must be one of {", ".join(values)}, found {value!r}.'
      )
    return values[value]
  return reader


def _each(reader: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
  """Returns a reader of mappings, given a reader of their values."""
  return lambda value, where: {
      name: reader(own, f'{where}, {name}')
      for name, own in _mapping(value, where).items()
  }


def _flags(value: Any, where: str) -> dict[str, str]:
  """Returns flags by name."""
  flags: dict[str, str] = {}
  for name, own in _mapping(value, where).items():
    place = f'{where}, {name}'
    if name != _METHOD_OPTIONS:
      flags[name] = _text(own, place, ';' if name == 'grid' else ',')
      continue
    for options in own if isinstance(own, list) else [own]:
      options = _each(_text)(options, place)
      if 'methods' not in options:
        raise ValueError(f'{place} must have the key methods, found none.')
      flags.update({
          f'{algo}_{option}': text
          for algo in brackets.split_list(options.pop('methods'))
          for option, text in options.items()
      })
  return flags


def _of(
    kind: Any, **readers: Callable[[Any, str], Any]
) -> Callable[[Any, str], Any]:
  """Returns a reader of mappings whose keys are the fields of a named tuple."""
  required = set(readers) - set(kind._field_defaults)
  def reader(value, where):
    found = _mapping(value, where)
    for key in found:
      if key not in readers:
        raise ValueError(
            f'{where} must have keys among {", ".join(readers)}, found {key!r}.'
        )
    missing = [key for key in readers if key in required and key not in found]
    if missing:
      raise ValueError(f'{where} must have the key {missing[0]}, found none.')
    return kind(**{
        key: readers[key](own, f'{where}, {key}') for key, own in found.items()
    })
  return reader


_BOOLEAN = _one_of({'true': True, 'false': False})
_PUBLISHED = _of(
    Published, source=_text, setting=_text, differs=_each(_text),
    accuracy=_each(_share), measure=_one_of({name: name for name in MEASURES}),
    pipeline=_items,
)
_PART = _of(
    Part, title=_text, flags=_flags, scales=_each(_flags), embedded=_BOOLEAN,
    published=_PUBLISHED,
)
_BENCHMARK = _of(
    Benchmark, help=_text, title=_text, note=_text, page=_text,
    scales=_each(_flags), parts=_each(_PART), chooses_algos=_BOOLEAN,
)
_CLAIM = _of(Claim, expect=_text, metric=_text, in_seeds=_number(int))
_SETTING = _of(
    Setting, flags=_flags, files=_BOOLEAN, visits=_BOOLEAN,
    claims=lambda value, where: tuple(_CLAIM(own, where) for own in value),
    new_clients=_number(float),
)
_SETTINGS = _of(Settings, help=_text, note=_text, settings=_each(_SETTING))
