"""Checks that a GPU gives correct, repeatable results, and how fast.

    python -m binaries.gpu_check [--parts=methods,speed,edges] [--device=gpu:0]
    python -m binaries.gpu_check --device=stand_in  # On a second CPU.

Checks whether the fused runtime is correct and bit-reproducible on this GPU,
and faster than on the CPU. `methods` runs three rounds of every method on the
tiny task of the contract tests, and two rounds of every workload of
benchmark_runtime, on the GPU, on the CPU, and on the GPU again with the same
seed. `speed` times the workloads on both, beside the same maths written by
hand. `edges` needs no GPU: it reads from traces how many tensors per round move
between host and device, and counts the bytes sent to a second CPU. Writes
gpu_report.md, methods.csv, speed.csv and edges.csv to --output_dir. The exit
code is 1 if a part fails, differs from the CPU or is not bit-identical.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any, Mapping, Sequence

import numpy as np
import tensorflow as tf

from binaries.speed import child as child_lib
from binaries.speed import gpu_check_child
from binaries.speed import gpu_edges
from binaries.speed import harness
from binaries.speed import runtime
from binaries.speed import workloads
from tff_pers.config import methods
from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.runtime import fused

PARTS = ('methods', 'speed', 'edges')
STAND_IN = gpu_check_child.STAND_IN
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


def _run(given: dict[str, Any]) -> int:
  parts = _chosen('parts', given, PARTS)
  names = _chosen('methods', given, methods.names())
  loads = _chosen('workloads', given, list(workloads.WORKLOADS))
  device = given['device']
  if device != STAND_IN:
    with flags.usage_errors(names=['device']):
      device = fused.find_devices(device)[0][1:].lower()
  output_dir = pathlib.Path(flags.output_dir(given, 'gpu_check'))
  output_dir.mkdir(parents=True, exist_ok=True)
  text, is_right = [f'# {_machine(device)}\n'], True
  if 'methods' in parts:
    section, is_right = compare_methods(
        names, loads, device, given['jobs'], output_dir
    )
    text.append(section)
  if 'speed' in parts and loads:
    text.append(_time_rounds(loads, device, given, output_dir))
  if 'edges' in parts:
    text.append(_count_edges(given['jobs'], output_dir))
  report = output_dir / 'gpu_report.md'
  files.write_text(str(report), '\n'.join(text))
  print(f'\n{report.read_text(encoding="utf-8")}\n{report}')
  return 0 if is_right else 1


def _chosen(flag: str, given, known: Sequence[str]) -> list[str]:
  """Returns the names of a comma-separated list, or of `all` or `none`."""
  if given[flag] in ('all', 'none'):
    return list(known) if given[flag] == 'all' else []
  return flags.chosen(flag, given[flag], known)


def _machine(device: str) -> str:
  """Returns a description of the measured machine."""
  title = f'TensorFlow {tf.__version__}, {os.cpu_count()} cores, '
  if device == STAND_IN:
    return title + 'a second logical CPU in place of a GPU'
  gpus = tf.config.list_physical_devices('GPU')
  number = int(device.rpartition(':')[2])
  details = tf.config.experimental.get_device_details(gpus[number])
  return title + str(details.get('device_name', device))


def _section(
    title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]],
    path: pathlib.Path,
) -> str:
  """Writes a table as CSV; returns it as a section, without empty columns."""
  results.write_csv(str(path), columns, rows)
  shown = [column for column in columns if any(row[column] for row in rows)]
  return f'## {title}\n\n{results.markdown(shown, rows)}\n'


def compare_methods(
    names: Sequence[str], loads: Sequence[str], device: str, jobs: int,
    output_dir: pathlib.Path,
) -> tuple[str, bool]:
  """Returns the section on methods and workloads; whether all are right."""
  items = [*names, *(load for load in loads if load not in _NOT_COMPARED)]
  shares = max(1, min(jobs // 2, len(items)))
  folders = {
      where: output_dir / where.replace(':', '_') for where in (device, 'cpu')
  }
  for folder in folders.values():
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    list(pool.map(
        # Neighbours in the list take similar times, so deal them out in turn.
        lambda task: record(task[0], folders[task[0]], items[task[1]::shares]),
        [(where, number) for where in folders for number in range(shares)],
    ))
  rows = [row(name, folders[device], folders['cpu']) for name in items]
  section = _section(
      'Correct and bit-identical', _METHODS, rows, output_dir / 'methods.csv'
  )
  return section, all(each['is_right'] and each['repeats'] for each in rows)


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


def _time_rounds(
    loads: Sequence[str], device: str, given: Mapping[str, Any],
    output_dir: pathlib.Path,
) -> str:
  """Returns the section on seconds of every workload, runtime and device."""
  rows = []
  for name in loads:
    for place in ['cpu'] if device == STAND_IN else [device, 'cpu']:
      try:
        rows += runtime.measure(
            name, ['fused', 'loop'], dict(given, device=place)
        )
      except child_lib.ChildError as error:
        print(f'{name} on {place} ended early: {error}', flush=True)
  return _section(
      'Seconds of a round', runtime.COLUMNS, rows, output_dir / 'speed.csv'
  )


def _count_edges(jobs: int, output_dir: pathlib.Path) -> str:
  """Returns the section on what moves between host and device."""
  with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
    rows = list(pool.map(
        lambda name: harness.in_own_process('binaries.speed.gpu_edges', name),
        gpu_edges.CASES,
    ))
  return _section(
      'Between host and device: tensors of the graph, bytes of a round',
      gpu_edges.COLUMNS, rows, output_dir / 'edges.csv',
  )


main = flags.Program(
    'gpu_check', __doc__, _run,
    flags.own_flag(
        'device', 'gpu',
        f'The GPU: gpu, gpu:1; {STAND_IN}: a second logical CPU that'
        ' treats clients as a GPU does (vectorized).',
    ),
    flags.own_flag(
        'parts', 'methods,speed', f'Parts, of {", ".join(PARTS)}.'
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
)
