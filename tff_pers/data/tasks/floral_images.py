"""Settings of FLoRAL's image experiments, for clusters of clients.

Collaborative and Efficient Personalization with Mixtures of Adaptors (FLoRAL),
section 5 (papers/floral.md 5.2), full and reduced data.
"""

from typing import Any

from tff_pers.data import brackets
from tff_pers.data import partition as partition_lib
from tff_pers.data.tasks import registry


def has_clusters(request: registry.TaskRequest, partition: str) -> bool:
  """Returns whether clients will form clusters that share out the test set.

  Args:
    request: What the flags ask.
    partition: The task's default of `--partition`.
  """
  name, _ = brackets.parse(request.partition or partition)
  return partition_lib.get(name).deals_test


def settings(
    request: registry.TaskRequest, *, batch_size: int, learning_rate: float
) -> dict[str, Any]:
  """Returns rounds and hyperparameters as fields of `Task`.

  One local epoch per round. With `--train_fraction` < 1 ("reduced"): three
  times the rounds and the router's step size.
  """
  reduced = 0 < request.train_fraction < 1
  return dict(
      rounds=1500 if reduced else 500,
      eval_every=25,
      defaults={
          '': dict(
              batch_size=batch_size, local_steps=0, local_epochs=1,
              learning_rate=learning_rate,
              router_learning_rate=0.3 if reduced else 0.1,
          ),
          'perm': dict(warmup_rounds=10),
      },
  )
