"""Robust rules by name: `parse('bucketing[s=3](krum)')`."""

import dataclasses
import re
from typing import Union

from tff_pers.aggregators.robust import preparations
from tff_pers.aggregators.robust import rules
from tff_pers.config import registry
from tff_pers.data import brackets

AnyRule = Union[rules.Rule, preparations.Composed]

_KINDS: registry.Registry[type] = registry.Registry('aggregator')
_kind: type[Union[rules.Rule, preparations.Preparation]]
for _kind in (*rules.RULES, *preparations.PREPARATIONS):
  _KINDS.register(_kind.name, lambda kind: kind)(_kind)

# name, [options], (rule).
_FORM = re.compile(r'\s*(\w+)\s*(\[[^()]*\])?\s*(?:\((.*)\))?\s*')


def names() -> list[str]:
  """Returns the names of all rules and preparations, sorted."""
  return _KINDS.names()


def parse(text: str) -> AnyRule:
  """Returns the rule that `text` names.

    parse('median')
    parse('multi_krum[m=2,f=5]')
    parse('norm_clipping[radius=arc](bucketing[s=3](krum))')

  The option `f` may be given at any one rule of a composition. `norm_clipping`
  without a rule is followed by the mean.

  Args:
    text: The rule as users write it.

  Raises:
    ValueError: If there is no such rule, or an option is bad.
  """
  match = _FORM.fullmatch(text)
  if not match:
    raise ValueError(
        '`aggregator` must be a rule, such as median, krum[f=2] or'
        f' bucketing[s=3](median), found {text!r}.'
    )
  name, options, inner = match.groups()
  kind = _KINDS.get(name)
  prepares = issubclass(kind, preparations.Preparation)
  if inner is None and kind is preparations.NormClipping:
    inner = 'mean'
  if prepares != (inner is not None):
    wanted = f'a rule in it: {name}(median)' if prepares else 'no rule in it'
    raise ValueError(
        f'`aggregator` {name} must have {wanted}, found {text!r}.'
    )
  first = brackets.fill(
      kind(), brackets.parse(name + (options or ''))[1], name
  )
  if not prepares:
    return first
  then = parse(inner)
  if rules.NOT_GIVEN not in (first.f, then.f) and first.f != then.f:
    raise ValueError(
        f'`f` must be given once in a composition of rules, found {text!r}.'
    )
  return preparations.Composed(
      dataclasses.replace(first, f=rules.NOT_GIVEN),
      dataclasses.replace(then, f=rules.NOT_GIVEN), max(first.f, then.f),
  )


def as_text(rule: AnyRule) -> str:
  """Returns a text from which `parse` makes the rule.

  Args:
    rule: What `parse` returns.
  """
  if isinstance(rule, preparations.Composed):
    first = dataclasses.replace(rule.first, f=rule.f)
    return f'{_own_text(first)}({as_text(rule.then)})'
  return _own_text(rule)


def _own_text(part) -> str:
  options = ','.join(
      f'{spec.name}={str(getattr(part, spec.name)).lower()}'
      for spec in dataclasses.fields(part)
      if getattr(part, spec.name) != spec.default
  )
  return part.name + (f'[{options}]' if options else '')


def with_num_byzantine(text: str, number: int) -> str:
  """Returns the rule `text` with f = `number`, unless f is given.

  Args:
    text: As `parse` takes it.
    number: f, >= 0.

  Raises:
    ValueError: See `parse`.
  """
  rule = parse(text)
  if rule.f != rules.NOT_GIVEN:
    return text
  return as_text(dataclasses.replace(rule, f=number))


def check(text: str, num_clients: int) -> None:
  """Refuses a rule that is impossible with this number of clients.

  Args:
    text: The rule.
    num_clients: Clients of a round.

  Raises:
    ValueError: If the rule is impossible, or half of the clients or more are
      assumed to be Byzantine.
  """
  rule = parse(text)
  number = max(rule.f, 0)
  if number and 2 * number >= num_clients:
    raise ValueError(
        '`aggregator` must assume that less than half of the clients of a round'
        f' ({num_clients}) are Byzantine, found f = {number}.'
    )
  if not rule.is_possible(num_clients, number):
    raise ValueError(
        f'`aggregator` {text} needs {rule.needs}, found {num_clients} clients'
        f' in a round and f = {number}.'
    )
