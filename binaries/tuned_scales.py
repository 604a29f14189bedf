"""A comparison by `compare_tuned` at a scale that has a name, and its page."""

import os
from typing import Any, Callable, Mapping, Sequence

from binaries import compare_tuned
from tff_pers.core import files
from tff_pers.experiments import flags

_SCALE = 'cpu'


def run(
    name: str,
    argv: Sequence[str],
    *,
    summary: str,
    scales: Mapping[str, Mapping[str, Any]],
    table: str,
    page: Callable[[str, Mapping[str, Any], Mapping[str, Any], str], str],
    file_name: str,
) -> int:
  """Runs the comparison, writes and prints its page; returns the exit code.

  Args:
    name: The name of the program.
    argv: What was typed.
    summary: What `--help` begins with.
    scales: Flags of `compare_tuned` by value of `--scale`, `cpu` among them.
    table: The file of the comparison without which there is no page.
    page: `(scale, given, chosen, top) -> text`: the value of `--scale`, the
      other flags that were given, all that were handed on, the folder.
    file_name: That of the page.
  """
  known = {
      **dict([flags.own_flag(
          'scale', _SCALE, 'Model, rounds and writers.', choices=tuple(scales)
      )]),
      **compare_tuned.flag_table(),
  }
  if flags.wants_help(argv):
    print(flags.help_text(summary, known, argv))
    return 0
  given = flags.parse(argv, known)
  scale = given.pop('scale', _SCALE)
  top = given.pop('output_dir', '') or flags.resolve_path(
      f'runs/{name}_{scale}'
  )
  chosen = {**scales[scale], **given}
  code = compare_tuned.main([
      'compare_tuned', *(f'--{flag}={v}' for flag, v in chosen.items()),
      f'--output_dir={top}',
  ])
  # 2: bad flags or data, and 130: stopped, leave no table.
  if code in (0, 1) and os.path.exists(os.path.join(top, table)):
    text = page(scale, given, chosen, top)
    path = os.path.join(top, file_name)
    files.write_text(path, text)
    print(f'\n{text}\nThe page is {path}.')
  return code


def heading(
    name: str, title: str, scale: str, given: Mapping[str, Any],
    chosen: Mapping[str, Any], about: str,
) -> list[str]:
  """Returns the first paragraphs of a page: title, command, settings.

  Args:
    name: The name of the program.
    title: What the page is about.
    scale: Value of `--scale`.
    given: The other flags that were given, by name.
    chosen: All flags that were handed on.
    about: Sentences on the numbers.
  """
  # The folder of the data is another one on every machine.
  typed, settings = (
      flags.as_typed({**part, 'data_dir': 'DATA'}) for part in (given, chosen)
  )
  command = [f'python -m binaries.{name}', f'--scale={scale}', *typed]
  return [
      f'# {title}',
      f'    {" ".join(command)}',
      'Settings: ' + ' '.join(f'`{word}`' for word in settings)
      + '. A step size is chosen for each method by the mean accuracy over'
      f' clients on validation data of the first seed. {about}',
  ]
