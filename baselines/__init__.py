"""Competing methods, one file per method or family; importing registers them.

Modules of this folder are discovered automatically; their functions `build_*`
and hyperparameter classes are names of the package, such as
`baselines.build_fedavg` and `baselines.FedAvgHyperparameters`.
"""

from typing import Any, TYPE_CHECKING

from tff_pers.config import discovery

if TYPE_CHECKING:

  # Type checkers do not run the code below; for them its names are Any.
  def __getattr__(name: str) -> Any:
    ...

globals().update(
    discovery.builders(discovery.import_modules(__name__, __path__))
)
