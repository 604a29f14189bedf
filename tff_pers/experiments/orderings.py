"""Checks orderings of methods in a finished comparison.

    python -m binaries.check_orderings --runs=DIR --expect=CLAIM[,CLAIM...]

Checks claims about a folder that compare wrote. A claim is a chain of terms
joined by < or <=, such as 'fedavg<local_adaptor<=floral[rank=4]'. A term is a
number, a variant as in --algos, or number*variant; a variant may be followed by
+number or -number: 'floral<0.001*fedavg', 'local_only+0.1<perm'. Prints a row
per link of a chain. A variant that diverged fulfils no claim. Exit codes: 0 all
claims hold, 1 at least one does not, 2 bad flags.
"""

import math
import operator
import os
import re
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import damaged
from tff_pers.evaluation import grids
from tff_pers.evaluation import results
from tff_pers.experiments import experiment
from tff_pers.experiments import flags

STATISTICS = ('mean', 'median')
COLUMNS = ('claim', 'left', 'right', 'seeds', 'holds')
# A variant and its offset; signs within brackets belong to the variant.
_OFFSET = re.compile(r'(.*?[\w\]])\s*([+-]\s*[\d.]+(?:e[+-]?\d+)?)')
_COMPARE = {'<': operator.lt, '<=': operator.le}

# A metric by seed, by variant.
Values = Mapping[str, Mapping[int, float]]


class Term(NamedTuple):
  """factor * variant + offset, or `factor` alone if the variant is None."""

  factor: float
  variant: Optional[str]
  offset: float = 0.0


class Link(NamedTuple):
  """left < right, or left <= right."""

  left: Term
  relation: str
  right: Term
  text: str


def _run(given: dict[str, Any]) -> int:
  rows = check(
      flags.resolve_path(given.pop('runs')), given.pop('expect'), **given
  )
  print(results.markdown(COLUMNS, rows))
  return int(any(row['holds'] == 'no' for row in rows))


def check(
    runs: str, expect: str, *, metric: str = 'accuracy',
    statistic: str = 'mean', in_seeds: int = 0,
) -> list[dict[str, Any]]:
  """Returns a row of `COLUMNS` per link of the claims.

  Arguments are the flags of `binaries.check_orderings`, see their help.

  Raises:
    flags.UsageError: If a claim is malformed, or the folder or the metric
      does not exist.
  """
  links = _parse_claims(expect)
  values = _read_values(runs, _rows_of(runs, links), metric)
  return [_row(link, values, statistic, in_seeds) for link in links]


def _parse_claims(text: str) -> list[Link]:
  """Returns the links of all chains in order.

    _parse_claims('a<b<=0.5*c')  # a<b, b<=0.5*c

  Raises:
    flags.UsageError: If `text` is no list of claims.
  """
  with flags.usage_errors():
    claims = brackets.split_list(text)
  links = []
  for claim in claims:
    # The group keeps the relations at odd positions, terms at even ones.
    parts = [part.strip() for part in re.split('(<=?)', claim)]
    if len(parts) < 3:
      raise _bad_claim(claim)
    terms = [_parse_term(part, claim) for part in parts[::2]]
    links += [
        Link(terms[i // 2], parts[i], terms[i // 2 + 1],
             ''.join(parts[i - 1:i + 2]))
        for i in range(1, len(parts), 2)
    ]
  if not links or not all(_variants(link) for link in links):
    raise _bad_claim(text)
  return links


def _parse_term(text: str, claim: str) -> Term:
  """Parses `number`, or [number*]variant[+number or -number]."""
  factor, star, rest = text.rpartition('*')
  offset = _OFFSET.fullmatch(rest.strip())
  variant = offset[1] if offset else rest.strip()
  if not variant:
    raise _bad_claim(claim)
  try:
    if not star and grids.number(text) is not None:
      return Term(float(text), None)
    return Term(
        float(factor) if star else 1.0, variant,
        float(offset[2].replace(' ', '')) if offset else 0.0,
    )
  except ValueError:
    raise _bad_claim(claim) from None


def _bad_claim(claim: str) -> flags.UsageError:
  return flags.UsageError(
      '`--expect` must be claims such as fedavg<floral[rank=4] or'
      f' floral<0.001*fedavg or local_only+0.1<perm, found {claim!r}.'
  )


def _variants(link: Link) -> list[str]:
  return [x.variant for x in (link.left, link.right) if x.variant is not None]


def _rows_of(folder: str, links: Sequence[Link]) -> list[Mapping[str, str]]:
  """Returns the rows of `runs.csv` of the variants that the links name."""
  path = os.path.join(folder, 'runs.csv')
  if not os.path.exists(path):
    raise flags.UsageError(
        f'`--runs` must name a folder that compare wrote, found {folder!r}.'
    )
  rows = results.read_rows(
      folder, 'runs.csv', comparison.RUN_COLUMNS, numbers=('accuracy', 'loss')
  )
  with damaged.reading(path, damaged.RUN_AGAIN):
    for row in rows:
      int(row['seed'])
  present = list(dict.fromkeys(row['algo'] for row in rows))
  named = [variant for link in links for variant in _variants(link)]
  for variant in named:
    if variant not in present:
      raise flags.UsageError(
          f'`--expect` must name variants of the folder, {", ".join(present)};'
          f' found {variant!r}.'
      )
  return [row for row in rows if row['algo'] in named]


def _read_values(
    folder: str, rows: Sequence[Mapping[str, str]], metric: str
) -> Values:
  """Returns the metric by variant and seed; NaN where a run diverged.

  `rows` are those of `runs.csv`, which has the metric, or the runs'
  `metrics.csv` have it.
  """
  values: dict[str, Any] = {}
  for row in rows:
    if row['loss'] == 'nan':
      value = math.nan
    elif metric in ('accuracy', 'loss'):
      value = float(row[metric] or 'nan')
    else:
      value = _from_metrics(folder, row, metric)
    values.setdefault(row['algo'], {})[int(row['seed'])] = value
  return values


def _from_metrics(folder: str, row: Mapping[str, Any], metric: str) -> float:
  """Returns the last value of a column of a run's `metrics.csv`."""
  name = experiment.folder_name(row['algo'])
  path = os.path.join(folder, name, f'seed{row["seed"]}')
  if not os.path.exists(os.path.join(path, results.CONFIG)):
    raise flags.UsageError(
        f'`--runs` must hold the runs of `compare`, found none in {path}. Tip:'
        ' of compare_tuned, only accuracy and loss of the last round can be'
        ' checked.'
    )
  columns = results.read_run(path).metrics
  if metric not in columns:
    raise flags.UsageError(
        f'`--metric` must be one of {", ".join(columns)}, found {metric!r}.'
    )
  return float(columns[metric][-1])


def _row(
    link: Link, values: Values, statistic: str, in_seeds: int
) -> dict[str, Any]:
  """Returns the row of a link: its numbers, and whether it holds."""
  compare = _COMPARE[link.relation]
  # Only seeds that both sides have, because seeds differ in their data.
  seeds = set.intersection(*(set(values[name]) for name in _variants(link)))
  left, right = (
      {seed: _value(term, values, seed) for seed in sorted(seeds)}
      for term in (link.left, link.right)
  )
  count = sum(bool(compare(left[seed], right[seed])) for seed in left)
  summarize = getattr(np, statistic)
  totals = [float(summarize(list(side.values()))) for side in (left, right)]
  # A diverged run makes a total NaN, and no comparison with NaN holds.
  holds = compare(*totals) and count >= in_seeds
  return dict(
      claim=link.text, left=f'{totals[0]:.4g}', right=f'{totals[1]:.4g}',
      seeds=f'{count} of {len(seeds)}', holds='yes' if holds else 'no',
  )


def _value(term: Term, values: Values, seed: int) -> float:
  if term.variant is None:
    return term.factor
  return term.factor * values[term.variant][seed] + term.offset


main = flags.Program(
    'check_orderings', __doc__, _run,
    flags.own_flag('runs', '', 'Folder that compare wrote.'),
    flags.own_flag('expect', '', 'Claims, see above.'),
    flags.own_flag(
        'metric', 'accuracy', 'accuracy, loss, or a column of metrics.csv.'
    ),
    flags.own_flag(
        'statistic', 'mean', 'Statistic over seeds to compare.',
        choices=STATISTICS,
    ),
    flags.own_flag(
        'in_seeds', 0, 'Minimum number of seeds in which each claim must hold'
        ' by itself.', minimum=0,
    ),
)
