"""What is wrong with somebody's data, in one sentence."""


class DataError(ValueError):
  """Data cannot be used; the message names the file, the client, the rule."""
