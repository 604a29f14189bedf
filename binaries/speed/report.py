"""Table of ratios and bar chart of `benchmark_runtime`."""

import math
from typing import Any, Mapping, Optional, Sequence

from matplotlib import ticker

from binaries.speed import workloads
from tff_pers.evaluation import figures
from tff_pers.evaluation import results

COLUMNS = (
    'workload', 'runtime', 'device', 'first_round_seconds', 'wall_seconds',
    'cpu_seconds', 'peak_rss_mb',
)
# Column, and the runtimes whose ratio is shown, by title.
_RATIOS = {
    'native / fused': ('cpu_seconds', 'native', 'fused'),
    'fedjax / fused': ('cpu_seconds', 'fedjax', 'fused'),
    'fused / loop': ('cpu_seconds', 'fused', 'loop'),
    'memory, fused / native': ('peak_rss_mb', 'fused', 'native'),
}

Rows = Sequence[Mapping[str, Any]]


def ratio_table(rows: Rows) -> Optional[str]:
  """Returns ratios of CPU seconds and memory; None without a pair."""
  cells = {(row['workload'], row['runtime']): row for row in rows}
  lines = {row['workload']: dict(workload=row['workload']) for row in rows}
  for name, line in lines.items():
    for title, (column, a, b) in _RATIOS.items():
      if (name, a) in cells and (name, b) in cells:
        ratio = cells[name, a][column] / cells[name, b][column]
        line[title] = f'{ratio:.2f}'
  shown = [t for t in _RATIOS if any(t in line for line in lines.values())]
  if not shown:
    return None
  return results.markdown(
      ('workload', *shown),
      [{**dict.fromkeys(shown), **line} for line in lines.values()],
  )


def plot(rows: Rows, output_dir: str) -> str:
  """Plots CPU seconds per round, one bar per runtime; returns the path."""
  names = list(dict.fromkeys(row['workload'] for row in rows))
  runtimes = list(dict.fromkeys(row['runtime'] for row in rows))
  picture, axes = figures.new_figure(
      max(4.2, 1.1 * len(names) + 1.4), 3.6, 1, grid=False
  )
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
  titles = [f'{name}\n{workloads.WORKLOADS[name].title}' for name in names]
  axes[0].set_xticks(range(len(names)), titles, fontsize=7)
  axes[0].grid(axis='y', alpha=0.25)
  axes[0].set_axisbelow(True)
  return figures.save(picture, output_dir, 'runtime')
