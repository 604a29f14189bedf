"""Sweeps the split of a partially private model.

    python -m binaries.sweep_splits --algo=local_ffgg --model=mlp \
      --splits=bias,output_layer,input_layer,adapter --seeds=0,1,2
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from tff_pers.experiments import flags
from tff_pers.experiments import splits

SUMMARY = """\
python -m binaries.sweep_splits --algo=A --splits=S,T,... --seeds=0,1,2
    [--flag=value ...]

Trains a method that splits the model with each split, and the two extremes:
fedavg_finetuned (nothing is private) and local_only (everything is). Runs are
in OUTPUT_DIR/<variant>/seed<seed>, as in compare: finished runs are not
repeated, interrupted runs are resumed. Writes splits.csv, splits.md and the
figure splits: accuracy against the share of private parameters."""

_DEFAULTS = dict(
    algo='local_ffgg', splits='bias,adapter,output_layer,input_layer',
    seeds='0',
)


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program(
      'sweep_splits', SUMMARY, flag_table, splits.run, argv, defaults=_DEFAULTS
  )


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return flags.all_flags(
      flags.own_flag(
          'algo', _DEFAULTS['algo'], 'The method, possibly with options, such'
          ' as fedper[local_steps=5].',
      ),
      flags.own_flag(
          'splits', _DEFAULTS['splits'], 'Splits to try: what is private.'
      ),
      flags.own_flag(
          'seeds', _DEFAULTS['seeds'], 'Seeds of the runs, such as 0,1,2.'
      ),
      without=('seed',),
  )


if __name__ == '__main__':
  sys.exit(main(sys.argv))
