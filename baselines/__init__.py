"""Competing methods, one file each or of a kind; importing registers them.

Every module of this folder is found by itself; its functions `build_*` and
classes of hyperparameters are names of the package, e.g.
`baselines.build_fedavg` and `baselines.FedAvgHyperparameters`.
"""

from typing import Any, TYPE_CHECKING

from tff_pers.config import discovery

if TYPE_CHECKING:

  # Type checkers do not run what is below; to them its names are Any.
  def __getattr__(name: str) -> Any:
    ...

globals().update(
    discovery.builders(discovery.import_modules(__name__, __path__))
)
