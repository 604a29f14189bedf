"""Links of pages to files of the repository that are no pages of the site."""

import os
import pathlib
import re

_DOCS = pathlib.Path(__file__).resolve().parents[1]
_LINK = re.compile(r'(?<!!)\[([^\]]*)\]\(([^)#:\s]+)(#[^)]*)?\)')


def process(app, page: str, source) -> None:
  """Rewrites a page that Sphinx has read, in place."""
  del app
  folder = (_DOCS / page).parent
  source[0] = convert(source[0], folder)


def convert(text: str, folder: pathlib.Path) -> str:
  """Returns a page; what it links to and the site lacks is named instead.

  Args:
    text: The page, in Markdown.
    folder: Where its links start.
  """
  def converted(match):
    label, target, _ = match.groups()
    path = pathlib.Path(os.path.normpath(folder / target))
    if path == _DOCS.parent / 'README.md':
      return f'[{label}]({os.path.relpath(_DOCS / "index.md", folder)})'
    if _DOCS in path.parents:
      return match[0]
    return f'`{path.relative_to(_DOCS.parent)}`'

  return _LINK.sub(converted, text)
