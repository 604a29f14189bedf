"""Chooses the clients of a corpus that make a task, and splits their texts."""

from typing import Callable, NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.data import errors
from tff_pers.data import holdout
from tff_pers.data import partition as partition_lib
from tff_pers.data import split as split_lib
from tff_pers.data import text_files
from tff_pers.data import validation
from tff_pers.data.tasks import registry

_TRAIN_FRACTION = 0.8
# Use number of the data seed, see `partition.generator`.
_SAMPLE = 2


class Client(NamedTuple):
  """A client's texts, in the order of the corpus."""

  name: str
  train: Sequence[text_files.Text]
  test: Sequence[text_files.Text]


def choose(
    corpus: text_files.Corpus, request: registry.TaskRequest, task: str,
    is_text: Callable[[text_files.Text], bool], *, min_train: int,
    min_test: int, num_clients: int, max_train: Optional[int] = None,
) -> list[Client]:
  """Returns the clients of the task, sorted by name.

  Texts are split before clients are chosen, so that a client's texts do not
  depend on how many take part; those that are no text to `is_text` are dropped.
  If the corpus is chosen already, all its clients are the task's, with their
  empty texts, which other code counts, too; with `--train_fraction`, the split
  of one then depends on the other clients.

  A client has at least `min_train` and `min_test` texts, of which it trains on
  the first `max_train`. By default the task is a random sample of `num_clients`
  of them, or all if there are fewer.

  Raises:
    errors.DataError: If no client remains, or fewer than requested.
    ValueError: If a partition other than by_client is requested.
  """
  registry.refuse_partition(task, request)
  clients = _split(corpus, request, is_text)
  first_ones = lambda client: client._replace(train=client.train[:max_train])
  if corpus.chosen:
    return list(map(first_ones, clients))
  kept = [
      client for client in clients
      if len(client.train) >= min_train and len(client.test) >= min_test
  ]
  tip = f'lower --{task}_min_train and --{task}_min_test.'
  if not kept:
    raise errors.DataError(
        f'{corpus.where} must hold a client with at least {min_train} training'
        f' and {min_test} test texts, found none among {len(corpus.clients)}.'
        f' Tip: {tip}'
    )
  if request.num_clients > len(kept):
    raise errors.DataError(
        f'`num_clients` must be <= the {len(kept)} clients of {corpus.where}'
        f' with enough texts, found {request.num_clients}. Tip: {tip}'
    )
  size = min(request.num_clients or num_clients, len(kept))
  rng = partition_lib.generator(request.seed, _SAMPLE)
  return [
      first_ones(kept[i]) for i in np.sort(rng.permutation(len(kept))[:size])
  ]


def training(
    clients: Sequence[Client], request: registry.TaskRequest
) -> list[text_files.Text]:
  """Returns all training texts, if a text is an example.

  Neither validation texts nor texts of held-out clients are among them.
  """
  held_out = holdout.choose(
      len(clients), request.holdout_clients, request.seed
  )
  kept = validation.kept_rows(
      [len(client.train) for client in clients], request.validation_fraction,
      request.seed,
  )
  return [
      client.train[row] for index, client in enumerate(clients)
      if index not in held_out for row in kept[index]
  ]


def _split(corpus, request, is_text) -> list[Client]:
  """Returns all clients with at least two texts, split as given or drawn."""
  names, texts, given = [], [], []
  for name in sorted(corpus.clients):
    own = corpus.clients[name]
    rows = [
        row for row, text in enumerate(own) if corpus.chosen or is_text(text)
    ]
    if len(rows) > 1:
      names.append(name)
      texts.append([own[row] for row in rows])
      given.append(corpus.is_test and np.asarray(corpus.is_test[name])[rows])
  if corpus.is_test is None or request.train_fraction:
    splits = split_lib.split_clients(
        [len(own) for own in texts], request.seed,
        request.train_fraction or _TRAIN_FRACTION, names, corpus.where,
    )
  else:
    splits = [
        split_lib.Split(np.flatnonzero(~own), np.flatnonzero(own))
        for own in given
    ]
  return [
      Client(name, *([own[row] for row in rows] for rows in split))
      for name, own, split in zip(names, texts, splits)
  ]
