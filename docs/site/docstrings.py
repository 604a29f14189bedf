"""From the project's docstrings, plain text with sections, to reStructuredText.

Sections (Args, Returns, Raises, Attributes) are left to napoleon. In all else
`code` becomes a literal, an indented block a literal block, and characters that
mean something in reStructuredText mean themselves.
"""

import re

_SECTIONS = ('Args:', 'Returns:', 'Raises:', 'Yields:', 'Attributes:')
# With an @ the type of a placement would be somebody's address.
_SPECIAL = re.compile(r'([*|\\@]|(?<=\w)_(?!\w))')


def process(app, what, name, thing, options, lines) -> None:
  """Rewrites the lines of a docstring in place, as Sphinx's event asks for."""
  del app, what, name, thing, options
  lines[:] = convert(lines)


def convert(lines):
  """Returns the lines in reStructuredText."""
  made, in_section, in_block, in_code = [], False, False, False
  for line in lines:
    indented = line.startswith('  ') and bool(line.strip())
    if line.strip() and not indented:
      in_section = line.strip() in _SECTIONS
    if not in_section and indented:
      if not in_block:
        made += ['', '::', '']
        in_block = True
      made.append(f'    {line}')
      continue
    if in_block and line.strip():
      made.append('')
      in_block = False
    text, in_code = (line, False) if in_block else escape(line, in_code)
    made.append(text)
  return made


def escape(text: str, in_code: bool = False) -> tuple[str, bool]:
  """Returns a line in which nothing but `code` is marked up.

  Args:
    text: The line.
    in_code: Whether code continues from the line before.

  Returns:
    The line, and whether code goes on in the next one.
  """
  made = ''
  for at, part in enumerate(text.split('`')):
    if at:
      in_code = not in_code
    if not in_code:
      made += _SPECIAL.sub(r'\\\1', part)
    elif part.strip():
      # Markup has no letters beside it; an escaped blank is none to see.
      margin = part[:len(part) - len(part.lstrip())]
      before = '\\ ' if re.search(r'\w$', made) else ''
      made += f'{margin}{before}``{part.strip()}``\\ '
  return made.removesuffix('\\ ').rstrip(), in_code
