"""Checks that a GPU gives correct, repeatable results, and how fast.

    python -m binaries.gpu_check            # On the GPU.
    python -m binaries.gpu_check --device=stand_in   # On a second CPU.

Writes gpu_report.md, and the CSV files behind its tables, to --output_dir.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any, Sequence

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np  # pylint: disable=g-import-not-at-top
import tensorflow as tf

from binaries.speed import gpu_check_child
from binaries.speed import gpu_edges
from binaries.speed import runtime
from binaries.speed.runtime_benchmark import child as child_lib
from binaries.speed.runtime_benchmark import report as report_lib
from binaries.speed.runtime_benchmark import workloads
from tff_pers.config import methods
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.runtime import fused

SUMMARY = """\
python -m binaries.gpu_check [--parts=methods,speed,edges] [--device=gpu:0]

Checks whether the fused runtime is correct and bit-reproducible on this GPU,
and faster than on the CPU. `methods` runs three rounds of every method on the
tiny task of the contract tests, and two rounds of every workload of
benchmark_runtime, on the GPU, on the CPU, and on the GPU again with the same
seed. `speed` times the workloads on both, beside the same maths written by
hand. `edges` needs no GPU: it reads from traces how many tensors per round move
between host and device, and counts the bytes sent to a second CPU. Writes
gpu_report.md, methods.csv, speed.csv and edges.csv to --output_dir. The exit
code is 1 if a part fails, differs from the CPU or is not bit-identical."""

STAND_IN = gpu_check_child.STAND_IN
_PARTS = ('methods', 'speed', 'edges')
# Runtimes agree to 1e-5 per round. After three rounds with other orders of
# addition the error may be ten times that; for workloads, ten times the effect
# of changing the last bit of the initial weights.
_MARGIN, _AS_SENSITIVE = 1e-4, 10
# Their data sets or Dropout layers draw without a seed.
_NOT_COMPARED = ('W6_cnn', 'W8')
_METHODS = (
    'name', 'is_right', 'difference', 'sensitivity', 'repeats', 'vectorized',
    'stages',
    'first_seconds', 'later_seconds', 'cpu_first_seconds', 'cpu_later_seconds',
    'error',
)


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('gpu_check', SUMMARY, flag_table, _check, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag(
          'device', 'gpu',
          f'The GPU: gpu, gpu:1; {STAND_IN}: a second logical CPU that treats'
          ' clients as a GPU does (vectorized).',
      ),
      flags.own_flag(
          'parts', 'methods,speed', 'Parts, of ' + ', '.join(_PARTS) + '.'
      ),
      flags.own_flag('methods', 'all', 'Methods; all, none or a list.'),
      flags.own_flag(
          'workloads', ','.join(workloads.WORKLOADS),
          'Workloads of benchmark_runtime; none: none.',
      ),
      flags.own_flag('rounds', 7, 'Measured rounds of each.', minimum=1),
      flags.own_flag(
          'jobs', max(1, (os.cpu_count() or 1) // 2),
          'Processes at once in `methods`, half of them on the GPU, and in'
          ' `edges`.', minimum=1,
      ),
      flags.own_flag(
          'output_dir', '', 'Folder of the results; empty: runs/gpu_check.'
      ),
  ])


def _check(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  given = {
      **{name: flag.spec.default for name, flag in table.items()}, **given,
  }
  parts = _chosen('parts', given['parts'], _PARTS)
  names = _chosen('methods', given['methods'], methods.names())
  loads = _chosen('workloads', given['workloads'], list(workloads.WORKLOADS))
  device = given['device']
  if device != STAND_IN:
    with flags.sentences(names=['device']):
      device = fused.find_devices(device)[0][1:].lower()
  output_dir = pathlib.Path(
      given['output_dir'] or flags.resolve_path('runs/gpu_check')
  )
  output_dir.mkdir(parents=True, exist_ok=True)
  text = [f'# {_machine(device)}\n']
  is_right = True
  if 'methods' in parts:
    items = [*names, *(w for w in loads if w not in _NOT_COMPARED)]
    rows = _compare_methods(items, device, given['jobs'], output_dir)
    results.write_csv(str(output_dir / 'methods.csv'), _METHODS, rows)
    is_right = all(row['is_right'] and row['repeats'] for row in rows)
    text.append(_section('Correct and bit-identical', _METHODS, rows))
  if 'speed' in parts and loads:
    rows = _time(loads, device, given)
    results.write_csv(str(output_dir / 'speed.csv'), report_lib.COLUMNS, rows)
    text.append(_section('Seconds of a round', report_lib.COLUMNS, rows))
  if 'edges' in parts:
    with concurrent.futures.ThreadPoolExecutor(given['jobs']) as pool:
      rows = list(pool.map(
          lambda name: _edges(name, output_dir), gpu_edges.CASES
      ))
    results.write_csv(str(output_dir / 'edges.csv'), gpu_edges.COLUMNS, rows)
    text.append(_section(
        'Between host and device: tensors of the graph, bytes of a round',
        gpu_edges.COLUMNS, rows,
    ))
  report = output_dir / 'gpu_report.md'
  report.write_text('\n'.join(text), encoding='utf-8')
  print(f'\n{report.read_text(encoding="utf-8")}\n{report}')
  return 0 if is_right else 1


def _chosen(flag: str, text: str, known: Sequence[str]) -> list[str]:
  """Returns the names of a comma-separated list, or of `all` or `none`."""
  if text in ('all', 'none'):
    return list(known) if text == 'all' else []
  return runtime.chosen(flag, text, known)


def _machine(device: str) -> str:
  """Returns a description of the measured machine."""
  title = f'TensorFlow {tf.__version__}, {os.cpu_count()} cores, '
  if device == STAND_IN:
    return title + 'a second logical CPU in place of a GPU'
  gpus = tf.config.list_physical_devices('GPU')
  number = int(device.rpartition(':')[2])
  details = tf.config.experimental.get_device_details(gpus[number])
  return title + str(details.get('device_name', device))


def _section(title: str, columns, rows) -> str:
  shown = [column for column in columns if any(row[column] for row in rows)]
  return f'## {title}\n\n{results.markdown(shown, rows)}\n'


def _compare_methods(
    items: Sequence[str], device: str, jobs: int, output_dir: pathlib.Path,
) -> list[dict[str, Any]]:
  """Returns a row for every method and workload."""
  def play_share(each):
    where, number = each
    folder = output_dir / where.replace(':', '_')
    # Neighbours in the list take similar times, so deal them out in turn.
    record(where, folder, items[number::shares])
    return folder

  for where in (device, 'cpu'):
    folder = output_dir / where.replace(':', '_')
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
  shares = max(1, min(jobs // 2, len(items)))
  tasks = [(d, n) for d in (device, 'cpu') for n in range(shares)]
  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    folders = list(pool.map(play_share, tasks))
  return [row(name, folders[0], folders[-1]) for name in items]


def record(where: str, folder: pathlib.Path, items: Sequence[str]) -> None:
  """Records items on a device, restarting the child process if it dies."""
  waiting = list(items)
  while waiting:
    command = [
        sys.executable, '-m', 'binaries.speed.gpu_check_child', where,
        str(folder), *waiting,
    ]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, check=False,
    )
    left = [n for n in waiting if not (folder / f'{n}.json').exists()]
    if left:
      lines = [t for t in done.stderr.splitlines() if t.strip()]
      error = f'exit code {done.returncode}: {lines[-1] if lines else ""}'
      (folder / f'{left[0]}.json').write_text(json.dumps(dict(error=error)))
    print(f'{where}: {", ".join(n for n in waiting if n not in left)}')
    waiting = left[1:]


def row(name: str, folder: pathlib.Path, cpu: pathlib.Path) -> dict[str, Any]:
  """Returns the results on the device compared to those on the CPU."""
  ours, reference = (
      json.loads((each / f'{name}.json').read_text()) for each in (folder, cpu)
  )
  difference = float('nan')
  if not ours.get('error') and not reference.get('error'):
    a, b = (np.load(each / f'{name}.npz') for each in (folder, cpu))
    difference = max(gpu_check_child.distance(a[key], b[key]) for key in b)
  sensitivity = reference.get('sensitivity', 0.0)
  return dict(
      {**dict.fromkeys(_METHODS, ''), **ours}, name=name,
      difference=f'{difference:.1e}',
      sensitivity=f'{sensitivity:.1e}' if sensitivity else '',
      is_right=difference <= max(_MARGIN, _AS_SENSITIVE * sensitivity),
      cpu_first_seconds=reference.get('first_seconds', ''),
      cpu_later_seconds=reference.get('later_seconds', ''),
      error=ours.get('error') or reference.get('error', ''),
  )


def _edges(name: str, output_dir: pathlib.Path) -> dict[str, Any]:
  """Returns what moves between host and device in the rounds of a case."""
  path = output_dir / f'edges_{list(gpu_edges.CASES).index(name)}.json'
  subprocess.run(
      [sys.executable, '-m', 'binaries.speed.gpu_edges', str(path), name],
      stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
      env=dict(os.environ, CUDA_VISIBLE_DEVICES=''),
  )
  return json.loads(path.read_text(encoding='utf-8'))


def _time(names: Sequence[str], device: str, given) -> list[dict[str, Any]]:
  """Returns a row for every workload, runtime and device."""
  rows = []
  places = ['cpu'] if device == STAND_IN else [device, 'cpu']
  for name in names:
    for place in places:
      try:
        rows += runtime.measure(
            name, ['fused', 'loop'], dict(given, device=place)
        )
      except child_lib.ChildError as error:
        print(f'{name} on {place} ended early: {error}', flush=True)
  return rows


if __name__ == '__main__':
  sys.exit(main(sys.argv))
