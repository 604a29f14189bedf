"""What is wrong with somebody's data, in one sentence."""


class DataError(ValueError):
  """Data cannot be used; the message names the file, the client, the rule."""


def first_line(error: Exception) -> str:
  """Returns what a library says, as a part of a sentence."""
  text = str(error).strip() or type(error).__name__
  return text.splitlines()[0].rstrip('.')
