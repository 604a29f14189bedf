"""Time to accuracy under heavy-tailed delays, on handwritten characters.

    python -m binaries.benchmark_async --data_dir=DATA

FedAvg and FFGG wait for the slowest client of every round; FedBuff, FedAsync
and asynchronous FFGG do not (papers/baselines.md 8,
papers/partial_personalization.md 2.4).
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Mapping, Sequence

from binaries import tuned_scales
from tff_pers.evaluation import results
from tff_pers.evaluation import times
from tff_pers.evaluation import tuning
from tff_pers.experiments import flags
from tff_pers.experiments import timing

SUMMARY = """\
python -m binaries.benchmark_async --data_dir=DIR [--scale=cpu]
    [--flag=value ...]

Makes the table of virtual times with compare_tuned: FedAvg, FedBuff, FedAsync,
FFGG and asynchronous FFGG on Federated EMNIST by writer, as many messages each,
with delays of infinite variance, each at the step size that validation data
choose, over three seeds. DIR holds femnist_writers.npz. The scale cpu takes
less than an hour on two cores; full has the CNN. Every other flag is one of
compare_tuned and goes before the scale's. The same command resumes. Writes
async.md beside the files of compare_tuned."""


def _algos(rounds: int, eval_every: int, cohort: int) -> str:
  """Returns the variants; each has the messages of `rounds` rounds."""
  by_rounds = f'rounds={rounds},eval_every={eval_every}'
  by_messages = f'rounds={rounds * cohort},eval_every={eval_every * cohort}'
  return ','.join([
      f'fedavg[{by_rounds}]', f'fedbuff[buffer_size={cohort},{by_rounds}]',
      f'fedasync[{by_messages}]', f'ffgg[{by_rounds}]',
      f'async_ffgg[{by_messages}]',
  ])


_COMMON = dict(
    task='emnist', seeds='0,1,2', validation_fraction=0.2,
    clients_per_round=10, delays='pareto[shape=1.2]',
    # Of the clients' steps, and where they send one gradient, of the server's.
    grid=(
        'fedavg.learning_rate:0.5,1,2;fedbuff.learning_rate:0.5,1,2;'
        'fedasync.learning_rate:0.5,1,2;ffgg.server_learning_rate:0.3,1,3;'
        'async_ffgg.server_learning_rate:0.03,0.1,0.3'
    ),
)
SCALES = {
    'cpu': dict(
        _COMMON, algos=_algos(150, 10, 10), model='mlp_200', num_clients=100,
    ),
    'full': dict(
        _COMMON, algos=_algos(2500, 50, 10), model='emnist_cnn',
    ),
}
PAGE = 'async.md'


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.run('benchmark_async', _benchmark, argv)


def _benchmark(argv: Sequence[str]) -> int:
  return tuned_scales.run(
      'benchmark_async', argv, summary=SUMMARY, scales=SCALES, table=timing.CSV,
      page=page, file_name=PAGE,
  )


def page(
    scale: str, given: Mapping[str, Any], chosen: Mapping[str, Any], top: str
) -> str:
  """Returns the page: what was run, and both tables, in Markdown.

  Args:
    scale: Value of `--scale`.
    given: The other flags that were given, by name.
    chosen: All flags that were handed on.
    top: The folder of the comparison.
  """
  summary = results.read_rows(top, 'summary.csv')
  timed = results.read_rows(top, timing.CSV)
  return '\n\n'.join([
      *tuned_scales.heading(
          'benchmark_async', 'Time to accuracy under heavy-tailed delays',
          scale, given, chosen,
          'Times are virtual seconds, means over seeds.',
      ),
      '## Virtual time until an accuracy',
      results.markdown(times.COLUMNS, [
          _cells(row, ('target', times.TIME, f'{times.TIME}_std'))
          for row in timed
      ]),
      '## After all messages',
      tuning.markdown(list(summary[0]), [
          _cells(row, [n for n in row if n.endswith(('_mean', '_std'))])
          for row in summary
      ]),
  ]) + '\n'


def _cells(
    row: Mapping[str, str], numbers: Sequence[str]
) -> dict[str, Any]:
  """Returns the cells of a row, some as numbers; None where it is empty."""
  def read(name, text):
    return float(text) if text and name in numbers else text or None
  return {name: read(name, text) for name, text in row.items()}


if __name__ == '__main__':
  run()
