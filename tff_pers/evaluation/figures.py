"""Common parts of figures: colours, axes, legends, files."""

import os
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence
import warnings

from matplotlib import figure
from matplotlib import rc_context
from matplotlib import ticker
import numpy as np

from tff_pers.evaluation import results

# The palette of Okabe and Ito, which colour-blind readers can also distinguish,
# and one more colour.
COLORS = (
    '#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#000000',
    '#8C6D31',
)
_DASHES = ('-', '--', ':')
_MAX_TICKS = 8
_MARGIN = 0.08  # Inches around a figure.
# A user may have set a layout engine for all figures.
_NO_LAYOUT = {
    'figure.autolayout': False, 'figure.constrained_layout.use': False,
}


def new_figure(
    width: float, height: float, num_axes: int, *, grid: bool = True
) -> tuple[Any, Sequence[Any]]:
  """Returns a figure of the given inches, and its axes side by side."""
  # Without pyplot, which keeps every figure in memory until it is closed.
  picture = figure.Figure(figsize=(width, height), layout='constrained')
  axes = picture.subplots(1, num_axes, squeeze=False)[0]
  for axis in axes if grid else ():
    axis.grid(alpha=0.25)
  return picture, axes


def save(picture: Any, output_dir: str, name: str) -> str:
  """Writes name.png and .svg with a legend; returns the path without suffix."""
  _add_legend(picture)
  os.makedirs(output_dir, exist_ok=True)
  path = os.path.join(output_dir, name)
  with warnings.catch_warnings(), rc_context(_NO_LAYOUT):
    # Names of clients may use a script that the font lacks; letters are then
    # drawn as boxes.
    warnings.filterwarnings('ignore', 'Glyph .* missing')
    # The layout is most of the work, and would be repeated for each file.
    picture.get_layout_engine().execute(picture)
    picture.set_layout_engine(None)
    inches = picture.get_tightbbox().padded(_MARGIN)
    picture.savefig(path + '.png', dpi=150, bbox_inches=inches)
    # Without a date, so that figures of the same numbers are identical.
    picture.savefig(path + '.svg', metadata={'Date': None}, bbox_inches=inches)
  return path


def style(number: int) -> tuple[str, str]:
  """Returns the colour and dashes of the line of this number."""
  return (
      COLORS[number % len(COLORS)],
      _DASHES[number // len(COLORS) % len(_DASHES)],
  )


def draw_line(
    axis: Any, label: Optional[str], number: int, x: np.ndarray,
    y: np.ndarray, **line: Any,
) -> None:
  """Draws a line in the style of its number; x and y are [T].

  Without a label it is not in the legend. `line` has options of matplotlib's
  lines; without a marker, a single point gets one.
  """
  color, dash = style(number)
  line = {'marker': 'o' if len(x) == 1 else None, 'lw': 1.8, **line}
  axis.plot(x, y, dash, color=color, label=label, **line)


def draw_seeds(
    axis: Any, label: str, number: int, x: np.ndarray, values: np.ndarray,
    **line: Any,
) -> None:
  """Draws the mean over seeds as a line, and their range as a band.

  x is [T], values are [seeds, T], masked where a seed has none. The others are
  those of `draw_line`.
  """
  lowest, mean, highest = values.min(0), values.mean(0), values.max(0)
  draw_line(axis, label, number, x, mean, **line)
  if not np.array_equal(lowest, highest):  # One seed has no range.
    color, _ = style(number)
    axis.fill_between(x, lowest, highest, color=color, alpha=0.18, lw=0)


def tick_at(axis: Any, evaluated: np.ndarray) -> None:
  """Puts ticks on an axis of rounds only at evaluated rounds.

  A few rounds all get ticks. Of many, round numbers do; if too few of these
  were evaluated, some evaluated rounds do. `evaluated` are rounds in any order.
  """
  rounds = ticks = np.unique(evaluated)
  if len(rounds) > _MAX_TICKS:
    locator = ticker.MaxNLocator(_MAX_TICKS, integer=True, steps=[1, 2, 5, 10])
    ticks = np.intersect1d(locator.tick_values(rounds[0], rounds[-1]), rounds)
    if len(ticks) < 2:
      step = -(-len(rounds) // _MAX_TICKS)
      # Counted from the end, because tables show the last round.
      ticks = rounds[::-1][::step][::-1]
  axis.set_xticks(ticks, [f'{tick:g}' for tick in ticks])


def _add_legend(picture: Any) -> None:
  """Puts one legend for all labelled lines below the axes."""
  handles: dict[str, Any] = {}
  for axis in picture.axes:
    for handle, label in zip(*axis.get_legend_handles_labels()):
      handles.setdefault(label, handle)
  if handles:
    picture.legend(
        handles.values(), handles.keys(), loc='outside lower center',
        ncols=min(len(handles), 3), frameon=False, fontsize=9,
    )


def shortened(name: str) -> str:
  """Returns the first 16 characters of a name as a label, drawn literally."""
  if len(name) > 16:
    name = name[:15] + '\u2026'
  # Matplotlib treats text between two dollars as a formula.
  return name.replace('$', r'\$')


def has(columns: Optional[Mapping[str, np.ndarray]], name: str) -> bool:
  """Returns whether a column exists and has a value."""
  if columns is None or name not in columns:
    return False
  return bool(np.any(~np.isnan(columns[name])))


def baseline(run: results.Run) -> Optional[float]:
  """Returns the accuracy of always predicting a client's most frequent class.

  It is the mean over the clients that train; None if it is unknown.
  """
  if not has(run.clients, 'majority'):
    return None
  clients = run.final_clients
  return float(np.nanmean(clients['majority'][clients['seen'] == 1]))


def draw_baseline(
    draw: Callable[..., Any], runs: Iterable[results.Run]
) -> None:
  """Draws the mean `baseline` of runs as a thin line, if it is known.

  `draw` is `axhline` or `axvline` of an axis of accuracies.
  """
  known = [value for value in map(baseline, runs) if value is not None]
  if known:
    draw(
        float(np.mean(known)), color='black', lw=0.8, dashes=(6, 3),
        label='always the most frequent class',
    )


def first_known(
    tables: Iterable[Optional[Mapping[str, np.ndarray]]], *names: str
) -> str:
  """Returns the first of the columns that any table has, else the last."""
  tables = list(tables)
  return next(
      (name for name in names if any(has(table, name) for table in tables)),
      names[-1],
  )


def by_variant(runs: Iterable[results.Run]) -> dict[str, list[results.Run]]:
  """Returns the runs (seeds) of each variant, in order."""
  groups: dict[str, list[results.Run]] = {}
  for run in runs:
    groups.setdefault(run.variant, []).append(run)
  return groups
