"""From the project's docstrings, plain text with sections, to reStructuredText.

Sections (Args, Returns, Raises, Attributes) are left to napoleon. In all else
`code` becomes a literal, an indented block a literal block, and characters that
mean something in reStructuredText mean themselves.
"""

import re

_SECTIONS = ('Args:', 'Returns:', 'Raises:', 'Yields:', 'Attributes:')
_CODE = re.compile(r'(`[^`]+`)')
_BEFORE = '\\ '
_SPECIAL = re.compile(r'([*|\\`]|(?<=\w)_(?!\w))')


def process(app, what, name, thing, options, lines) -> None:
  """Rewrites the lines of a docstring in place, as Sphinx's event asks for."""
  del app, what, name, thing, options
  lines[:] = convert(lines)


def convert(lines):
  """Returns the lines in reStructuredText."""
  made, in_section, in_block = [], False, False
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
    made.append(line if in_block else escape(line))
  return made


def escape(text: str) -> str:
  """Returns a line in which nothing but `code` is marked up."""
  parts = _CODE.split(text)
  # Markup ends before white space or a mark; an escaped blank is none to see.
  return ''.join(
      f'{_BEFORE if _ends_in_word(parts[:at]) else ""}``{part[1:-1]}``\\ '
      if _CODE.fullmatch(part) else _SPECIAL.sub(r'\\\1', part)
      for at, part in enumerate(parts)
  ).rstrip()


def _ends_in_word(parts) -> bool:
  return bool(re.search(r'\w$', ''.join(parts)))
