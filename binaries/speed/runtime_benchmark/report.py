"""Tables and the bar chart of `benchmark_runtime`."""

import math
from typing import Any, Mapping, Optional, Sequence

from matplotlib import ticker

from tff_pers.evaluation import figures
from tff_pers.evaluation import results

COLUMNS = (
    'workload', 'runtime', 'device', 'first_round_seconds', 'wall_seconds',
    'cpu_seconds', 'peak_rss_mb',
)
# Shown as ratios of CPU seconds.
_RATIOS = (('native', 'fused'), ('fedjax', 'fused'), ('fused', 'loop'))

Rows = Sequence[Mapping[str, Any]]


def table(rows: Rows) -> str:
  """Returns the measurements as Markdown."""
  return results.markdown(COLUMNS, rows)


def ratio_table(rows: Rows) -> Optional[str]:
  """Returns ratios of CPU seconds and memory; None without a pair."""
  cells = {(row['workload'], row['runtime']): row for row in rows}
  columns = {
      f'{a} / {b}': _ratios(cells, a, b, 'cpu_seconds') for a, b in _RATIOS
  }
  columns['memory, fused / native'] = _ratios(
      cells, 'fused', 'native', 'peak_rss_mb'
  )
  shown = [title for title, column in columns.items() if column]
  if not shown:
    return None
  lines = [
      dict(
          {title: columns[title].get(name) for title in shown}, workload=name
      )
      for name in dict.fromkeys(row['workload'] for row in rows)
  ]
  return results.markdown(('workload', *shown), lines)


def _ratios(cells, a: str, b: str, column: str) -> dict[str, str]:
  """Returns the ratio of runtime a to runtime b by workload."""
  return {
      name: f'{cells[name, a][column] / cells[name, b][column]:.2f}'
      for name, runtime in cells
      if runtime == a and (name, b) in cells
  }


def plot(rows: Rows, titles: Mapping[str, str], output_dir: str) -> str:
  """Plots CPU seconds per round, one bar per runtime; returns the path.

  Args:
    rows: The measurements.
    titles: A title for every workload.
    output_dir: Where PNG and SVG go.
  """
  names = list(dict.fromkeys(row['workload'] for row in rows))
  runtimes = list(dict.fromkeys(row['runtime'] for row in rows))
  picture, axes = figures.new_figure(max(4.2, 1.1 * len(names) + 1.4), 3.6, 1)
  width = 0.8 / len(runtimes)
  for number, runtime in enumerate(runtimes):
    own = [row for row in rows if row['runtime'] == runtime]
    places = [
        names.index(row['workload']) + (number - (len(runtimes) - 1) / 2)
        * width for row in own
    ]
    bars = axes[0].bar(
        places, [row['cpu_seconds'] for row in own], width, label=runtime,
        color=figures.COLORS[number],
    )
    axes[0].bar_label(bars, fmt='%.2g', fontsize=6, padding=1)
  least = min(row['cpu_seconds'] for row in rows)
  axes[0].set_yscale('log')
  # The axis starts at a power of ten below the smallest bar, which would
  # otherwise be nearly invisible.
  axes[0].set_ylim(bottom=10 ** math.floor(math.log10(least)))
  axes[0].yaxis.set_major_formatter(ticker.FormatStrFormatter('%g'))
  axes[0].yaxis.set_minor_formatter(ticker.NullFormatter())
  axes[0].set_ylabel('CPU seconds per round, all processes')
  axes[0].set_xticks(
      range(len(names)), [f'{name}\n{titles[name]}' for name in names],
      fontsize=7,
  )
  axes[0].grid(axis='y', alpha=0.25)
  axes[0].set_axisbelow(True)
  figures.add_legend(picture, axes)
  return figures.save(picture, output_dir, 'runtime')
