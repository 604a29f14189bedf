"""How the clients of a stage are gone over."""

import dataclasses

STRATEGIES = ('loop', 'vectorized', 'xla')


@dataclasses.dataclass(frozen=True)
class Schedule:
  """How a stage runs; changes numbers by rounding at most.

  Attributes:
    strategy: `loop` (a loop in the graph whose iterations overlap),
      `vectorized` (the operations of all clients as one) or `xla` (the loop
      with every client compiled by XLA).
    clients_at_once: Bound on the clients that are in work together; 0 for as
      many as there are processors (`loop`, `xla`) or clients (`vectorized`).
  """

  strategy: str = 'loop'
  clients_at_once: int = 0
