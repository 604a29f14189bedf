"""`stackoverflow_nwp` and `stackoverflow_tags`: the next word, and tags.

A client is a user of Stack Overflow, or of other Stack Exchange sites. Files:
those of TFF (`data/formats/texts.py`), of which only the task's users are read,
cached or downloaded without `--data_dir`; or samples, see `data/text_files.py`,
where the title is the text of a question without text. An example is a post, as
in TFF: its first 20 words, or the shares of the 10,000 most frequent words in
all of its words and its title. The most frequent words and tags are counted in
training texts, unless TFF's counts (stackoverflow.word_count,
stackoverflow.tag_count) are in the folder.

The papers keep users with at least 100 training and 10 test posts, a random
1000 of them, and at most 1000 training posts of each
(papers/partial_personalization.md 5.2). In samples hardly any user has as many,
so the default is lower there.

Metrics: for words, `accuracy` is over words of the vocabulary, without special
tokens. For tags it is the recall at 5: the share of all tags of the client that
are among the five largest logits of their posts (TFF's task reports it together
with the precision at 5).
"""

import dataclasses
from typing import Callable

import numpy as np
import tensorflow as tf

from tff_pers.config import hyperparameters as hp
from tff_pers.data import on_demand
from tff_pers.data import sources
from tff_pers.data import task as task_lib
from tff_pers.data import text_files
from tff_pers.data import texts
from tff_pers.data.formats import texts as formats
from tff_pers.data.tasks import registry
from tff_pers.data.tasks import shakespeare
from tff_pers.data.tasks import text_clients
from tff_pers.models import tokens
from tff_pers.models import zoo

NWP, TAGS = 'stackoverflow_nwp', 'stackoverflow_tags'


@dataclasses.dataclass(frozen=True)
class PostOptions(hp.Options):
  """The users to keep, and the number of words."""

  vocabulary: int = hp.field(
      10_000, 'Number of words of the vocabulary, the most frequent ones.',
      minimum=1,
  )
  min_train: int = hp.field(
      0, 'Fewest training posts of a user, others are left out; 0: by source'
      ' (8 for the samples).', minimum=0,
  )
  min_test: int = hp.field(
      0, 'Fewest test posts of a user; 0: by source (2 for the samples).',
      minimum=0,
  )
  max_train: int = hp.field(
      1000, 'Maximum number of training posts of a user, the first ones.',
      minimum=1,
  )


@dataclasses.dataclass(frozen=True)
class NwpOptions(PostOptions):
  """How posts become sequences."""

  length: int = hp.field(20, 'Words to predict in one example.', minimum=1)


@dataclasses.dataclass(frozen=True)
class TagsOptions(PostOptions):
  """How posts become words and tags."""

  tags: int = hp.field(
      500, 'Number of tags to predict, the most frequent ones.', minimum=2,
  )


NWP_DECLARATION = registry.Declaration(
    classification=True,
    model='transformer',
    num_clients=0,
    clients_per_round=50,
    partitions=('by_client',),
    networks=(),
)
TAGS_DECLARATION = dataclasses.replace(
    NWP_DECLARATION, model='logistic_tags', clients_per_round=10
)


@registry.register(
    NWP, NwpOptions, declares=NWP_DECLARATION,
    summary='the next word of a post by user, from --data_dir',
)
def build_nwp(
    request: registry.TaskRequest, options: NwpOptions
) -> task_lib.Task:
  """Builds the task; x and y are int32[n, length]."""
  return nwp_of_corpus(_corpus(NWP, request, options), request, options)


def nwp_of_corpus(
    corpus: text_files.Corpus, request: registry.TaskRequest,
    options: NwpOptions,
) -> task_lib.Task:
  """Returns the task for the posts of any source."""
  clients = _clients(NWP, corpus, request, options)
  words = _cut(corpus)
  # No other words of a text are used.
  seen = lambda text: words(text.words)[:options.length]
  vocabulary = corpus.vocabulary or texts.most_frequent(
      map(seen, text_clients.training(clients, request)), options.vocabulary
  )
  token_of = texts.numbered(vocabulary[:options.vocabulary])

  def examples(posts):
    return texts.inputs_and_targets(np.stack([
        texts.sentence(
            words(post.words), token_of, options.vocabulary, options.length
        ) for post in posts
    ]))

  num_tokens = options.vocabulary + tokens.NUM_SPECIAL
  return task_lib.Task(
      name=NWP,
      model=shakespeare.build_model(
          NWP, NWP_DECLARATION.named_model(request.model), options.length,
          num_tokens, of_words=True,
      ),
      train=sources.from_arrays([examples(client.train) for client in clients]),
      test=sources.from_arrays([examples(client.test) for client in clients]),
      num_classes=num_tokens,
      rounds=1000,
      eval_every=100,
      pooled_statistics=not corpus.vocabulary,
      **NWP_DECLARATION.natural([client.name for client in clients]),
  )


@registry.register(
    TAGS, TagsOptions, declares=TAGS_DECLARATION,
    summary='the tags of a post by user, from --data_dir',
)
def build_tags(
    request: registry.TaskRequest, options: TagsOptions
) -> task_lib.Task:
  """Builds the task; x are float32[n, words], y float32[n, tags]."""
  return tags_of_corpus(_corpus(TAGS, request, options), request, options)


def tags_of_corpus(
    corpus: text_files.Corpus, request: registry.TaskRequest,
    options: TagsOptions,
) -> task_lib.Task:
  """Returns the task for the posts of any source; see `texts.Bags`.

  x and y of a client are made on demand: those of all clients would take 40 kB
  per post.

  Raises:
    ValueError: If another model than the task's is requested.
  """
  name = TAGS_DECLARATION.named_model(request.model)
  if name != TAGS_DECLARATION.model:
    raise ValueError(
        f'`model` must be {TAGS_DECLARATION.model} for task {TAGS}, found'
        f' {name!r}.'
    )
  clients = _clients(TAGS, corpus, request, options)
  training = text_clients.training(clients, request)
  words = _cut(corpus)
  all_words = lambda text: words(f'{text.words} {text.title}')
  vocabulary = corpus.vocabulary or texts.most_frequent(
      map(all_words, training), options.vocabulary
  )
  tags = corpus.tags or texts.most_frequent(
      (text.tags for text in training), options.tags
  )
  shape = (options.vocabulary, options.tags)
  word_at, tag_at = (
      {entry: column for column, entry in enumerate(entries[:size])}
      for entries, size in zip((vocabulary, tags), shape)
  )

  def lazy(part):
    bags = [
        texts.Bags(
            [(all_words(text), text.tags) for text in posts], word_at, tag_at,
            shape,
        ) for posts in part
    ]
    return on_demand.OnDemand(
        lambda position: bags[position].dense(), [len(own) for own in bags]
    )

  return task_lib.Task(
      name=TAGS,
      model=zoo.build(
          name, tf.TensorSpec([None, options.vocabulary]), options.tags
      ),
      train=lazy([client.train for client in clients]),
      test=lazy([client.test for client in clients]),
      num_classes=options.tags,
      rounds=500,
      eval_every=50,
      pooled_statistics=not (corpus.vocabulary and corpus.tags),
      **TAGS_DECLARATION.natural([client.name for client in clients]),
  )


def _corpus(
    task: str, request: registry.TaskRequest, options: PostOptions
) -> text_files.Corpus:
  """Returns the posts from the first source that has them."""
  min_train, min_test = formats.FEWEST_POSTS
  corpus = formats.posts(
      request.data_dir, task,
      (options.min_train or min_train, options.min_test or min_test),
      request.num_clients, request.seed,
  )
  return corpus or text_files.read_posts(request.data_dir, task)


def _cut(corpus: text_files.Corpus) -> Callable[[str], list[str]]:
  """Returns the function from a text to its words."""
  if corpus.spaced:
    return lambda text: text.split()
  return texts.words


def _clients(
    task: str, corpus: text_files.Corpus, request: registry.TaskRequest,
    options: PostOptions,
) -> list[text_clients.Client]:
  min_train, min_test = corpus.fewest
  return text_clients.choose(
      corpus, request, task, lambda text: bool(_cut(corpus)(text.words)),
      min_train=options.min_train or min_train,
      min_test=options.min_test or min_test, max_train=options.max_train,
      num_clients=formats.MOST_USERS,
  )
