"""FLoRAL's image experiments, for clusters of clients.

Collaborative and Efficient Personalization with Mixtures of Adaptors (FLoRAL),
section 5 (papers/floral.md 5.2), full and reduced data.
"""

from typing import Any

from tff_pers.data.tasks import registry


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
