"""Compares the runtimes to each other and to hand-written TensorFlow.

    python -m binaries.benchmark_runtime [--workloads=W1,W2] [--runtimes=A,B]

Measures CPU seconds of all processes, wall seconds and peak memory per round,
for each workload on each runtime; `loop` is the same maths written by hand, as
one tf.function. Writes runtime.csv and a bar chart (PNG, SVG) to --output_dir.

Every pair of workload and runtime has its own process, so that its memory and
first rounds are measured separately; the runtimes of a workload run their
rounds in turn, so that machine load affects all alike. Medians over rounds.
"""

import contextlib
import math
import os
import subprocess
import sys
from typing import Any, Mapping, Optional, Sequence

from matplotlib import ticker

from binaries.speed import cell
from binaries.speed import child as child_lib
from binaries.speed import workloads
from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.runtime import fused

# Other libraries, which run in environments of their own, and their workloads.
_PEERS = dict(fedjax=('W1', 'W2', 'W3', 'W4', 'W5'), pfl=('W1', 'W2', 'W3'))
_BOTH = ('W6_mlp', 'W6_cnn')  # What W6 means.
# In the first rounds a runtime compiles, and may try several strategies.
_WARM_UP = 4
_SETTLED = 50  # Rounds after which memory must not grow.
COLUMNS = (
    'workload', 'runtime', 'device', 'first_round_seconds', 'wall_seconds',
    'cpu_seconds', 'peak_rss_mb',
)
# Column, and the runtimes whose ratio is shown, by title.
_RATIOS = {
    'native / fused': ('cpu_seconds', 'native', 'fused'),
    'fedjax / fused': ('cpu_seconds', 'fedjax', 'fused'),
    'pfl / fused': ('cpu_seconds', 'pfl', 'fused'),
    'fused / loop': ('cpu_seconds', 'fused', 'loop'),
    'memory, fused / native': ('peak_rss_mb', 'fused', 'native'),
}


def _run(given: dict[str, Any]) -> None:
  """Runs `binaries.benchmark_runtime`, see `flags.Program`.

  Raises:
    flags.Failure: If a child process ends early.
  """
  names = workload_names(given['workloads'])
  runtimes = flags.chosen('runtimes', given['runtimes'], cell.RUNTIMES)
  with flags.usage_errors(names=['device']):
    fused.find_devices(given['device'] or None)
  for peer in _PEERS:
    if given[f'{peer}_python']:
      _check_peer(peer, given[f'{peer}_python'])
      runtimes.append(peer)
  try:
    if given['soak_rounds']:
      _soak(given['soak_rounds'], given['device'])
    elif given['ragged_clients']:
      _compare_shapes(given)
    else:
      _compare(names, runtimes, given)
  except child_lib.ChildError as error:
    raise flags.Failure(f'A measurement ended early: {error}') from error


def workload_names(text: str) -> list[str]:
  """Returns the workloads of `--workloads`."""
  found: list[str] = []
  for name in flags.chosen('workloads', text, [*workloads.WORKLOADS, 'W6']):
    found += _BOTH if name == 'W6' else [name]
  return list(dict.fromkeys(found))


def _check_peer(peer: str, python: str) -> None:
  """Refuses a Python without what the script of a peer imports."""
  why = 'no such program'
  with contextlib.suppress(OSError):
    tried = subprocess.run(
        [python, '-c', f'import binaries.speed.{peer}_cell'],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, check=False,
    )
    if tried.returncode == 0:
      return
    why = (tried.stderr.strip().splitlines() or ['it failed'])[-1]
  raise flags.UsageError(
      f'`--{peer}_python` must be a Python that can import {peer}, found'
      f' {python!r}: {why.rstrip(".")}.'
  )


def _command(name: str, runtime: str, given) -> list[str]:
  if runtime in _PEERS:
    python, module = given[f'{runtime}_python'], f'{runtime}_cell'
    command = [python, '-m', f'binaries.speed.{module}', name]
  else:
    command = [sys.executable, '-m', 'binaries.speed.cell', name, runtime]
  return [*command, given['device']]


def _compare(
    names: Sequence[str], runtimes: Sequence[str], given: Mapping[str, Any]
) -> None:
  """Measures workloads on runtimes; writes the files and prints the tables."""
  output_dir = flags.output_dir(given, 'runtime')
  os.makedirs(output_dir, exist_ok=True)
  rows: list[dict[str, Any]] = []
  for name in names:
    rows += measure(name, runtimes, given)
    results.write_csv(
        os.path.join(output_dir, 'runtime.csv'), COLUMNS, rows
    )
  path = plot(rows, output_dir)
  print(f'\n{results.markdown(COLUMNS, rows)}\n')
  ratios = ratio_table(rows)
  if ratios:
    print(f'Ratios of CPU seconds:\n\n{ratios}\n')
  print(f'{path}.png')


def measure(
    name: str, runtimes: Sequence[str], given: Mapping[str, Any]
) -> list[dict[str, Any]]:
  """Measures a workload on the runtimes; returns rows of the table."""
  with contextlib.ExitStack() as stack:
    children = {}
    for runtime in runtimes:
      if name in _PEERS.get(runtime, workloads.WORKLOADS):
        children[runtime] = stack.enter_context(
            child_lib.Child(_command(name, runtime, given))
        )
        children[runtime].play()
    in_turn = list(children.values())
    for _ in range(_WARM_UP - 1 + given['rounds']):
      for child in in_turn:
        child.play()
      in_turn.reverse()  # So that no runtime always follows the same one.
    rows = [
        row(name, runtime, child, given['rounds'])
        for runtime, child in children.items()
    ]
  for found in rows:
    print(
        f"{name} {found['runtime']}: {found['cpu_seconds']:.4f} CPU s,"
        f" {found['wall_seconds']:.4f} s per round", flush=True,
    )
  return rows


def row(
    name: str, runtime: str, child: child_lib.Child, rounds: int
) -> dict[str, Any]:
  """Returns the row of a workload on a runtime: medians of the last rounds."""
  cost = child.median(rounds)
  return dict(zip(COLUMNS, (
      name, runtime, child.device, child.wall[0], cost.wall, cost.cpu,
      round(child.memory('VmHWM') / 2**20),
  )))


def ratio_table(rows: Sequence[Mapping[str, Any]]) -> Optional[str]:
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


def plot(rows: Sequence[Mapping[str, Any]], output_dir: str) -> str:
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


def _soak(rounds: int, device: str) -> None:
  """Prints the memory over many rounds with varying cohorts."""
  command = _command(cell.SOAK, 'fused', dict(device=device))
  settled = min(_SETTLED, rounds)
  with child_lib.Child(command) as child:
    used = []
    for number in range(1, rounds + 1):
      child.play()
      used.append(child.memory('VmRSS') / 2**20)
      if number == settled or number % 100 == 0 or number == rounds:
        print(f'round {number}: {used[-1]:.0f} MiB', flush=True)
  growth = used[-1] - used[settled - 1]
  print(
      f'Memory after round {settled}: {used[settled - 1]:.0f} MiB; after round'
      f' {rounds}: {used[-1]:.0f} MiB ({growth / used[settled - 1]:+.1%}); most'
      f' since: {max(used[settled - 1:]):.0f} MiB.'
  )


def _compare_shapes(given: Mapping[str, Any]) -> None:
  """Prints the cost of clients of equal and of different shapes."""
  seconds = {}
  for name in (cell.EQUAL, cell.RAGGED):
    command = _command(f"{name}:{given['ragged_clients']}", 'fused', given)
    with child_lib.Child(command) as child:
      for _ in range(_WARM_UP + given['rounds']):
        child.play()
      seconds[name] = child.median(given['rounds']).cpu
    print(f'{name} shapes: {seconds[name]:.3f} CPU s per round', flush=True)
  print(f'ratio: {seconds[cell.RAGGED] / seconds[cell.EQUAL]:.2f}')


main = flags.Program(
    'benchmark_runtime', __doc__, _run,
    flags.own_flag(
        'workloads', ','.join(workloads.WORKLOADS),
        'Workloads to run; W6 means both of its forms. '
        + '; '.join(f'{k}: {w.title}' for k, w in workloads.WORKLOADS.items())
        + '.',
    ),
    flags.own_flag(
        'runtimes', ','.join(cell.RUNTIMES),
        'Runtimes, of ' + ', '.join(cell.RUNTIMES) + '.',
    ),
    flags.own_flag('rounds', 7, 'Measured rounds of each.', minimum=1),
    flags.own_flag(
        'device', '',
        'Device of fused, loop and peers: cpu, gpu, gpu:1; empty: the GPU if'
        ' there is one. The native runtime uses the CPU only.',
    ),
    flags.own_flag(
        'fedjax_python', '',
        'Python of an environment with FedJAX, to compare to (W1 to W5).'
    ),
    flags.own_flag(
        'pfl_python', '',
        'Python of an environment with pfl-research and PyTorch, to compare to'
        ' (W1 to W3).'
    ),
    flags.own_flag(
        'soak_rounds', 0,
        'Instead of the table: runs so many rounds of W1 on fused with varying'
        ' cohorts, and reports whether memory grows.', minimum=0,
    ),
    flags.own_flag(
        'ragged_clients', 0,
        'Instead of the table: the cost of so many clients with vectors of'
        ' different lengths on fused, beside equal lengths.', minimum=0,
    ),
    flags.own_flag(
        'output_dir', '', 'Folder of the results; empty: runs/runtime.'
    ),
)
