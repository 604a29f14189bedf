"""Bracket syntax of flags: `dirichlet[alpha=0.5,min=40]`."""

from typing import Any

from tff_pers.config import hyperparameters as hp


def parse(text: str) -> tuple[str, dict[str, str]]:
  """Returns the name and the options of `name[option=value,...]`.

    parse('dirichlet[alpha=0.5,min=40]')  # ('dirichlet', {'alpha': '0.5', ...})
    parse('iid')                          # ('iid', {})

  A value may contain brackets, within which commas do not split.

  Raises:
    ValueError: If `text` has another form, or repeats an option.
  """
  stripped = text.strip()
  name, bracket, rest = stripped.partition('[')
  name = name.strip()
  if not name or ',' in name or ']' in name or '=' in name:
    raise _malformed(text)
  if not bracket:
    return name, {}
  if not rest.endswith(']'):
    raise _malformed(text)
  options = {}
  for item in split_list(rest[:-1]):
    key, equals, value = (part.strip() for part in item.partition('='))
    if not (key and equals and value):
      raise _malformed(text)
    if key in options:
      raise ValueError(
          f'`{key}` must be given once in the brackets, found {text!r}.'
      )
    options[key] = value
  return name, options


def split_list(text: str) -> list[str]:
  """Returns the items of a list; commas inside brackets do not split.

    split_list('a,b[c=1,d=2]')  # ['a', 'b[c=1,d=2]']

  Raises:
    ValueError: If brackets do not match, or an item is empty.
  """
  items, depth, start = [], 0, 0
  for position, letter in enumerate(text):
    depth += (letter == '[') - (letter == ']')
    if depth < 0:
      raise _unbalanced(text)
    if letter == ',' and depth == 0:
      items.append(text[start:position].strip())
      start = position + 1
  if depth:
    raise _unbalanced(text)
  items.append(text[start:].strip())
  if items == ['']:
    return []
  if '' in items:
    raise ValueError(f'A list must have no empty item, found {text!r}.')
  return items


def fill(defaults: Any, options: dict[str, str], owner: str) -> Any:
  """Returns the dataclass `defaults` with the options that `parse` returned.

  Its fields are `hyperparameters.field`s; `owner` is for the message.

  Raises:
    ValueError: If an option is unknown, or its value is not allowed.
  """
  specs = hp.specs(defaults)
  unknown = sorted(set(options) - set(specs))
  if unknown:
    allowed = ', '.join(sorted(specs)) or 'none'
    raise ValueError(
        f'An option of {owner} must be one of: {allowed}; found'
        f' {unknown[0]!r}.'
    )
  values = {name: hp.parse(specs[name], text) for name, text in options.items()}
  return hp.replace(defaults, **values)


def _malformed(text: str) -> ValueError:
  return ValueError(
      f'A name must be of the form name[option=value,...], found {text!r}.'
  )


def _unbalanced(text: str) -> ValueError:
  return ValueError(f'Brackets must be balanced, found {text!r}.')
