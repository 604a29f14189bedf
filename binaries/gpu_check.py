"""Checks that a GPU gives correct, repeatable results, and how fast.

    python -m binaries.gpu_check            # On the GPU.
    python -m binaries.gpu_check --device=stand_in   # On a second CPU.

Writes gpu_report.md, and the CSV files behind its tables, to --output_dir.
"""

import os
import pathlib
import sys
from typing import Any, Sequence

from binaries.speed import gpu_check
from binaries.speed import workloads
from tff_pers.config import methods
from tff_pers.core import files
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

_PARTS = ('methods', 'speed', 'edges')


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('gpu_check', SUMMARY, flag_table, _check, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag(
          'device', 'gpu',
          f'The GPU: gpu, gpu:1; {gpu_check.STAND_IN}: a second logical CPU'
          ' that treats clients as a GPU does (vectorized).',
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
  given = {**flags.own_defaults(table), **given}
  parts = _chosen('parts', given, _PARTS)
  names = _chosen('methods', given, methods.names())
  loads = _chosen('workloads', given, list(workloads.WORKLOADS))
  device = given['device']
  if device != gpu_check.STAND_IN:
    with flags.usage_errors(names=['device']):
      device = fused.find_devices(device)[0][1:].lower()
  output_dir = pathlib.Path(
      given['output_dir'] or flags.resolve_path('runs/gpu_check')
  )
  output_dir.mkdir(parents=True, exist_ok=True)
  text, is_right = [f'# {gpu_check.machine(device)}\n'], True
  if 'methods' in parts:
    section, is_right = gpu_check.compare_methods(
        names, loads, device, given['jobs'], output_dir
    )
    text.append(section)
  if 'speed' in parts and loads:
    text.append(gpu_check.time_rounds(loads, device, given, output_dir))
  if 'edges' in parts:
    text.append(gpu_check.count_edges(given['jobs'], output_dir))
  report = output_dir / 'gpu_report.md'
  files.write_text(str(report), '\n'.join(text))
  print(f'\n{report.read_text(encoding="utf-8")}\n{report}')
  return 0 if is_right else 1


def _chosen(flag: str, given, known: Sequence[str]) -> list[str]:
  """Returns the names of a comma-separated list, or of `all` or `none`."""
  if given[flag] in ('all', 'none'):
    return list(known) if given[flag] == 'all' else []
  return flags.chosen(flag, given[flag], known)


if __name__ == '__main__':
  sys.exit(main(sys.argv))
