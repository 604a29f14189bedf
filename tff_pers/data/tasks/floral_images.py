"""FLoRAL's image experiments, for clusters of clients.

Collaborative and Efficient Personalization with Mixtures of Adaptors (FLoRAL),
section 5 (papers/floral.md 5.2), full and reduced data.
"""

from typing import Any

from tff_pers.data import brackets
from tff_pers.data import partition as partition_lib
from tff_pers.data.tasks import registry


def has_clusters(request: registry.TaskRequest, partition: str) -> bool:
  """Returns whether clients form clusters, which divide the test set.

  `partition` is the task's default of `--partition`.
  """
  name, _ = brackets.parse(request.partition or partition)
  return partition_lib.get(name).deals_test


def schedule(
    request: registry.TaskRequest, *regimes: str
) -> dict[str, Any]:
  """Returns rounds and regimes as fields of `Task`.

  With `--train_fraction` < 1 the data are "reduced": three times as many
  rounds, and the regime `reduced` in addition to the task's.
  """
  reduced = 0 < request.train_fraction < 1
  return dict(
      rounds=1500 if reduced else 500,
      eval_every=25,
      regimes=(*regimes, 'reduced') if reduced else regimes,
  )
