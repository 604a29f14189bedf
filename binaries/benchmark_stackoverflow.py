"""Questions and answers by user: the next word, and the tags.

    python -m binaries.benchmark_stackoverflow --data_dir=DATA

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity (papers/partial_personalization.md 5.2 to 5.5: StackOverflow).
Adaptive Federated Optimization. Reddi, Charles, Zaheer, Garrett, Rush, Konecny,
Kumar, McMahan. ICLR 2021 (tag prediction).
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Sequence

from binaries import published
from binaries import real_data
from binaries import tuned_parts

SUMMARY = """\
python -m binaries.benchmark_stackoverflow --data_dir=DIR [--scale=cpu]
    [--parts=tags,words] [--algos=all] [--flag=value]

Comparisons on Stack Overflow, each with compare_tuned in a folder of its own:
every method has the step size that validation data choose from one grid.

  tags    The tags of a post from its words; `accuracy` is recall at 5.
  words   The next word.

DIR holds the files of TFF, or a sample of posts (questions.json.gz or
posts.json.gz). The scale smoke takes a minute, cpu about an hour per part on
one core; paper has the papers' sizes and needs TFF's file. Every other flag is
one of compare_tuned and goes before the scale's. The same command resumes.
Writes stackoverflow.md beside the folders."""

# papers/partial_personalization.md 5.4. The adapters of its transformer are in
# the model, and its norms are private with them.
_FFGG = ','.join(
    f'local_ffgg[split={split},pretrain_rounds=1000,batch_size=64,'
    'clip_norm=0.1,server_optimizer=adam,pretrain_server_learning_rate=5e-4,'
    'server_learning_rate=5e-5,learning_rate_schedule=linear,'
    'learning_rate_rounds=1500]'
    for split in ('input_layer', 'output_layer', 'adapter:norm')
)
_SMALL = dict(num_clients=100, clients_per_round=10, rounds=200, eval_every=200)
_TASKS = {'tags': 'stackoverflow_tags', 'words': 'stackoverflow_nwp'}
_FEW_WORDS: dict[str, dict[str, Any]] = {
    'words': dict(stackoverflow_nwp_vocabulary=1000, model='lstm_small'),
    'tags': dict(
        stackoverflow_tags_vocabulary=1000, stackoverflow_tags_tags=50
    ),
}
BENCHMARK = tuned_parts.Benchmark(
    name='benchmark_stackoverflow',
    summary=SUMMARY,
    title='Stack Overflow by user',
    note=(
        'Means over users of test accuracies (of tags: recall at 5) and over'
        ' seeds, ± the standard deviation over seeds; pooled ones weight users'
        ' by their test posts. A step size is chosen for each method by the'
        ' mean accuracy over users on validation data of the first seed.'
        ' questions.json.gz is a sample: titles of questions by 2,531 users,'
        ' not the 342,477 clients of the full data.'
    ),
    parts={
        # Its model has one layer, of which nothing can be private.
        'tags': real_data.part(
            _TASKS['tags'], algos=real_data.algos('local_ffgg')
        ),
        'words': real_data.part(_TASKS['words']),
    },
    titles={'tags': 'The tags of a post', 'words': 'The next word'},
    scales=real_data.SCALES,
    sizes={
        **{
            f'cpu/{part}': dict(_SMALL, **few)
            for part, few in _FEW_WORDS.items()
        },
        **{
            f'smoke/{part}': real_data.smoke(_TASKS[part], **few)
            for part, few in _FEW_WORDS.items()
        },
        'paper/tags': dict(rounds=1500, eval_every=500),
        'paper/words': dict(
            model='transformer_adapters', rounds=1500, eval_every=500,
            algos=f'{real_data.algos()},{_FFGG}',
        ),
    },
    published={'words': published.STACKOVERFLOW},
    file='stackoverflow.md',
    chooses_algos=True,
)


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return tuned_parts.main(BENCHMARK, argv)


if __name__ == '__main__':
  run()
