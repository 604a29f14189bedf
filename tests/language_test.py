"""Language: phrases that must not come back in what people read.

Docstrings, comments and strings of .py files and the pages of documentation are
read as text. Only phrases that are never right are in the table; the message
names the place and what to write instead.
"""

import pathlib
import re

import pytest

pytestmark = pytest.mark.text

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLACES = (
    'README.md', 'CONTRIBUTING.md', 'baselines', 'binaries', 'docs', 'examples',
    'tests', 'tff_pers', 'tools',
)
_SELF = pathlib.Path(__file__).resolve()
# Between two words: spaces, or a line break in a comment or between strings.
_GAP = r"""(?:[\s#]|['"]\s*\n\s*f?['"])+"""
# Regular expressions of lower-case text, each with what to write instead. A
# space matches a line break, too.
PHRASES = {
    r'\b(?:go|goes|going|gone|went) before\b': 'take precedence over, override',
    r'\b(?:go|goes|going|gone|went) on (?:with|from|after|behind|where|at)\b':
        'continue, resume',
    r'\b(?:go|goes|going|gone) over\b': 'iterate over, process, cover',
    r'\b(?:has|have|had|having) (?:it )?otherwise\b': 'differ in, define differently',
    r'\b(?:hands|handed|handing) on\b': 'pass on',
    r'\b(?:come|comes|came) to lie\b': 'be placed',
    r'\b(?:stand|stands|stood|lie|lies|lay) beside\b': 'be next to, accompany',
    r'\b(?:tell|tells|told) of\b': 'report, mention',
    r'\banew\b': 'again',
    r'\bafter so many (?:rounds|messages|updates)\b': 'after t rounds, named as they are',
    r'\bcomes? upon\b': 'find, meet',
    r'\b(?:counts?|weighs?|weighed) alike\b': 'have equal weights',
    r'\b(?:be|is|are|were) done together\b': 'be vectorized, run together',
    r'\beach for itself\b': 'independently, separately',
    r'\bfor ever\b': 'indefinitely, or the limit itself',
    r'\bhardly come\b': 'is too short to, is unlikely to',
    r'\b(?:hangs?|hung) on\b': 'depend on',
    r'\b(?:has|have|had|are|is) but (?:one|two)\b': 'only one',
    r'\bin the place of\b': 'instead of, that replaces',
    r'\bin the words of\b': 'in the syntax of, in terms of',
    r'\bin vain\b': 'without effect',
    r'\bless the (?:slow|expected|expensive)\b': 'except, minus',
    r'\bmaps? the lines\b': 'say which lines of which',
    r'\bno matter of\b': 'not caused by, independent of',
    r"\bnobody's\b": 'the case itself: unassigned, unused, empty',
    r'\bof no account\b': 'ignored, has no effect',
    r'\bof a stranger\b': "another program's",
    r'\bof ours\b': 'of this package',
    r'\bon a leash\b': 'regularised',
    r"\bone's own\b": "your own, a user's",
    r'\bothers have it\b': 'release it',
    r'\bshall\b': 'must, should or will',
    r'\bthe same bits\b': 'bit-identical',
    r'\bto (?:its|their) end\b': 'until it finishes',
    r'\bwhat (?:came|comes|became|becomes) of\b': 'the result of, the outcome of',
    r'\bwhose they are\b': 'their owners, their clients',
    r'\bwhoever\b': 'the client that, the process that',
}
# With the longest word that a match must have: most files lack it.
_COMPILED = [
    (
        max(re.findall('[a-z]+', re.sub(r'\\b|\(.*?\)', ' ', phrase)), key=len),
        re.compile(phrase.replace(' ', _GAP)), advice,
    ) for phrase, advice in PHRASES.items()
]


def findings(text: str) -> list:
  """Returns (line, phrase, what to write instead) of every phrase in a text."""
  text = text.lower().replace('\u2019', "'")
  return sorted(
      (text.count('\n', 0, m.start()) + 1, ' '.join(re.split(_GAP, m[0])), advice)
      for word, phrase, advice in _COMPILED if word in text
      for m in phrase.finditer(text)
  )


def _files():
  for place in map(ROOT.joinpath, PLACES):
    for path in [place] if place.is_file() else sorted(place.rglob('*')):
      # The site's pages of methods are made of docstrings.
      if path.suffix in ('.py', '.md') and 'generated' not in path.parts:
        yield path


def test_no_phrase_of_the_table_comes_back():
  found = [
      f'{path.relative_to(ROOT)}:{line}: "{phrase}". Write: {advice}.'
      for path in _files() if path != _SELF
      for line, phrase, advice in findings(path.read_text())
  ]
  assert not found, '\n'.join(found)


@pytest.mark.parametrize(
    'text, expected',
    [
        ('# Brackets\n# go before.', [(2, 'go before')]),
        ("x = (f'It goes'\n     f' on with b.')", [(1, 'goes on with')]),
        ('Nobody’s.', [(1, "nobody's")]),
        ('Undergo overhead; renewals ours.', []),
    ],
)
def test_it_finds_phrases_across_lines(text, expected):
  assert [(line, phrase) for line, phrase, _ in findings(text)] == expected
