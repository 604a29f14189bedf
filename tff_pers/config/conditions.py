"""Conditions under which a hyperparameter acts, as users write them.

    variant=single_loop
    router=learned and objective=fml
    objective=fml or router=oracle

`and` binds tighter than `or`; `!=` is allowed instead of `=`. The same text is
checked, and shown by errors and `--help`.
"""

import re
from typing import Any, Mapping

_TERM = re.compile(r'(\w+)(=|!=)([\w.]+)')


def holds(condition: str, values: Mapping[str, Any]) -> bool:
  """Returns whether the values satisfy the condition.

  They are those of all hyperparameters, by flag name.

  Raises:
    ValueError: If the condition is malformed or names an unknown
      hyperparameter.
  """
  # A list, so that every term is checked, even if an earlier one decides.
  alternatives = [
      all([_term_holds(term, values) for term in alternative.split(' and ')])
      for alternative in condition.split(' or ')
  ]
  return any(alternatives)


def names(condition: str) -> list[str]:
  """Returns the hyperparameters that the condition names, in order."""
  return list(dict.fromkeys(match[1] for match in _TERM.finditer(condition)))


def found(condition: str, values: Mapping[str, Any]) -> str:
  """Returns their values as text: `router=oracle and objective=fml`."""
  return ' and '.join(
      f'{name}={as_text(values[name])}' for name in names(condition)
  )


def as_text(value: Any) -> str:
  """Returns a value as users write it: `true`, `0` for 0.0, `auto`, `''`."""
  if isinstance(value, bool):
    return str(value).lower()
  if value == '':
    return "''"
  return f'{value:g}' if isinstance(value, float) else str(value)


def _term_holds(term: str, values: Mapping[str, Any]) -> bool:
  match = _TERM.fullmatch(term)
  if not match or match[1] not in values:
    raise ValueError(
        'A condition must be made of name=value and name!=value, joined by'
        f' `and` and `or`, of known hyperparameters, found {term!r}.'
    )
  name, operator, text = match.groups()
  return (as_text(values[name]) == text) == (operator == '=')
