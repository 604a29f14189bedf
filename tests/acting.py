"""Hyperparameters of a test: its own values, and those defaults that act."""

import dataclasses

from tff_pers.config import hyperparameters as hp


def hyperparameters(kind, defaults, **values):
  """Returns an instance of `kind`.

  A test file has defaults for all variants of a method. A hyperparameter that
  has no effect in a variant is refused there, so it is left out.

  Args:
    kind: The dataclass.
    defaults: Values by field name.
    **values: What the test itself asks for, by field name.
  """
  defaults, asked = (
      {hp.flag_name(name): value for name, value in part.items()}
      for part in (defaults, values)
  )
  acting = hp.without_idle(kind, defaults, asked)
  by_field = {
      spec.name: acting[hp.flag_name(spec.name)]
      for spec in dataclasses.fields(kind) if hp.flag_name(spec.name) in acting
  }
  return kind(**by_field, **values)
