"""Tables and heat maps of robust rules against attacks."""

import collections
from typing import Any, Mapping, Sequence

import numpy as np

from tff_pers.evaluation import figures

COLUMNS = (
    'task', 'algo', 'rule', 'attack', 'num_byzantine', 'seed', 'final'
)
# Smaller distances are rounding errors, and all get the same colour.
_SMALLEST = 1e-14


def cells(
    rows: Sequence[Mapping[str, Any]], is_distance: bool
) -> tuple[list[str], list[str], np.ndarray]:
  """Returns (rules, attacks, values) of the rows of `robustness.csv`.

  Rules and attacks are in the order of the rows; values are float64[rules,
  attacks, 3]: smallest, median and largest `final` over the seeds, NaN if there
  is no row. A NaN or infinite `final` is that of a diverged run, which is worse
  than any number: infinity among distances, minus infinity among accuracies.
  """
  diverged = np.inf if is_distance else -np.inf
  found = collections.defaultdict(list)
  for row in rows:
    value = float(row['final'])
    found[row['rule'], row['attack']].append(
        value if np.isfinite(value) else diverged
    )
  rules = list(dict.fromkeys(row['rule'] for row in rows))
  attacks = list(dict.fromkeys(row['attack'] for row in rows))
  values = np.full([len(rules), len(attacks), 3], np.nan)
  for (rule, attack), finals in found.items():
    values[rules.index(rule), attacks.index(attack)] = [
        min(finals), np.median(finals), max(finals)
    ]
  return rules, attacks, values


def best_rules(
    parts: Sequence[Sequence[Mapping[str, str]]], number: int
) -> list[str]:
  """Returns the rules with the best worst-case accuracy over all cells.

  Only cells of the first seed count, because all rules have them. `parts` are
  the rows of every table.
  """
  worst: dict[str, float] = {}
  for rows in parts:
    first = [row for row in rows if row['seed'] == '0']
    rules, _, values = cells(first, is_distance=False)
    for rule, row in zip(rules, values[..., 1]):
      # A cell without a number counts as accuracy 0.
      worst[rule] = min(max(0.0, min(row)), worst.get(rule, 1.0))
  return sorted(worst, key=worst.__getitem__, reverse=True)[:number]


def markdown(rows: Sequence[Mapping[str, Any]], is_distance: bool) -> str:
  """Returns the table of medians over seeds, rules by attacks."""
  rules, attacks, values = cells(rows, is_distance)
  lines = [
      '| rule | ' + ' | '.join(attacks) + ' |',
      '|---' * (len(attacks) + 1) + '|',
  ]
  for rule, row in zip(rules, values):
    texts = [text(own, is_distance) for own in row]
    lines.append(f'| {rule} | ' + ' | '.join(texts) + ' |')
  return '\n'.join(lines)


def text(value: np.ndarray, is_distance: bool) -> str:
  """Returns the text of a cell: the median, and the worst seed if different.

  `value` is float64[3], smallest, median and largest over the seeds, either
  distances, where small is good, or accuracies (minus infinity: diverged).
  """
  if np.isnan(value[1]):
    return ''
  worst = value[2] if is_distance else value[0]
  show = lambda x: (
      f'{x:.0e}' if is_distance else f'{x:.3f}' if x >= 0 else 'diverged'
  )
  return show(value[1]) + ('' if worst == value[1] else f' ({show(worst)})')


def _readable(background) -> str:
  """Returns black or white, whichever is readable on a colour (r, g, b, a)."""
  red, green, blue, _ = background
  return 'black' if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else 'white'


def plot(
    rows: Sequence[Mapping[str, Any]], output_dir: str, is_distance: bool
) -> str:
  """Writes robustness.png and .svg, a heat map; returns the path without it.

  Green is good: small distances (on a logarithmic scale), large accuracies. The
  number in a cell is the median over the seeds.
  """
  rules, attacks, values = cells(rows, is_distance)
  medians = values[..., 1]
  shown = np.where(np.isinf(medians), np.nan, medians)
  if is_distance:
    shown = np.log10(np.maximum(shown, _SMALLEST))
  picture, (axis,) = figures.new_figure(
      2.6 + 1.1 * len(attacks), 1.4 + 0.36 * len(rules), 1, grid=False
  )
  # Cells without a number get the worst colour; cells not run are white.
  axis.set_facecolor('white')
  limits = dict(vmin=-12, vmax=1) if is_distance else dict(vmin=0, vmax=1)
  colors = 'RdYlGn_r' if is_distance else 'RdYlGn'
  bad = np.where(np.isinf(medians), limits['vmax'] if is_distance else 0, shown)
  image = axis.imshow(bad, cmap=colors, aspect='auto', **limits)
  for i, row in enumerate(values):
    for j, value in enumerate(row):
      axis.text(
          j, i, text(value[1].repeat(3), is_distance), ha='center', va='center',
          fontsize=8, color=_readable(image.to_rgba(bad[i, j])),
      )
  axis.set_xticks(range(len(attacks)), attacks, rotation=30, ha='right')
  axis.set_yticks(range(len(rules)), rules)
  picture.colorbar(
      image,
      label='log10 of the distance' if is_distance else 'accuracy',
  )
  return figures.save(picture, output_dir, 'robustness')
