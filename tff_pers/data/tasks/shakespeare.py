"""`shakespeare`: the next character of a play, one client per speaking role.

Files: those of TFF and LEAF (`data/formats/texts.py`), without `--data_dir`
TFF's, cached or downloaded; or else all roles of all plays in another edition,
see `data/text_files.py`, which are not TFF's 715 roles. A client's speeches are
split, then each is cut into rows of 80 characters to predict; vocabulary and
special tokens are those of TFF's task of that name, and so is the rule for the
tokens that count (all except padding).

Models: `char_lstm` (papers/local_update_methods.md 4.2) and `char_lstm_small`.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.data import sources
from tff_pers.data import task as task_lib
from tff_pers.data import text_files
from tff_pers.data import texts
from tff_pers.data.formats import texts as formats
from tff_pers.data.tasks import registry
from tff_pers.data.tasks import text_clients
from tff_pers.models import functional
from tff_pers.models import sequences
from tff_pers.models import tokens
from tff_pers.models import zoo


@dataclasses.dataclass(frozen=True)
class ShakespeareOptions(hp.Options):
  """How speeches become examples."""

  length: int = hp.field(
      80, 'Characters to predict in one example.', minimum=1,
  )
  min_train: int = hp.field(
      1, 'Fewest training speeches of a role; others are left out.', minimum=1,
  )
  min_test: int = hp.field(
      1, 'Fewest test speeches of a role; others are left out.', minimum=1,
  )


DECLARATION = registry.Declaration(
    classification=True,
    model='char_lstm',
    num_clients=0,
    clients_per_round=10,
    partitions=('by_client',),
    networks=(),
)


@registry.register(
    'shakespeare', ShakespeareOptions, declares=DECLARATION,
    summary='the next character of a play by role, from --data_dir',
)
def build(
    request: registry.TaskRequest, options: ShakespeareOptions
) -> task_lib.Task:
  """Builds the task; x and y are int32[n, length]."""
  corpus = formats.plays(request.data_dir)
  if corpus is None:
    corpus = text_files.read_roles(request.data_dir)
  return of_corpus(corpus, request, options)


def of_corpus(
    corpus: text_files.Corpus, request: registry.TaskRequest,
    options: ShakespeareOptions,
) -> task_lib.Task:
  """Returns the task for the speeches of any source."""
  clients = text_clients.choose(
      corpus, request, 'shakespeare', lambda text: bool(text.words),
      min_train=options.min_train, min_test=options.min_test,
      num_clients=len(corpus.clients),
  )
  token_of = texts.numbered(texts.CHARACTERS)

  def examples(speeches):
    rows = [
        texts.windows(speech.words, token_of, options.length)
        for speech in speeches
    ]
    return texts.inputs_and_targets(np.concatenate(rows))

  num_tokens = len(texts.CHARACTERS) + tokens.NUM_SPECIAL
  return task_lib.Task(
      name='shakespeare',
      model=build_model(
          'shakespeare', DECLARATION.named_model(request.model), options.length,
          num_tokens, of_words=False,
      ),
      train=sources.from_arrays([examples(client.train) for client in clients]),
      test=sources.from_arrays([examples(client.test) for client in clients]),
      num_classes=num_tokens,
      rounds=1200,
      eval_every=100,
      **DECLARATION.natural([client.name for client in clients]),
  )


def build_model(
    task: str, name: str, length: int, num_tokens: int, of_words: bool
) -> functional.FunctionalModel:
  """Returns a model of sequences.

  Raises:
    ValueError: If the model is not one of sequences of this kind.
  """
  names = sequences.names(of_words)
  if name not in names:
    raise ValueError(
        f'`model` must be one of {", ".join(names)} for task {task}, found'
        f' {name!r}.'
    )
  return zoo.build(name, tf.TensorSpec([None, length], tf.int32), num_tokens)
