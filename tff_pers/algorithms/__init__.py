"""The method families; importing this package registers them.

One folder per paper. Modules are discovered automatically; their functions
`build_*` and hyperparameter classes are names of the package, such as
`algorithms.build_perm` and `algorithms.PermHyperparameters`.
"""

from typing import Any, TYPE_CHECKING

from tff_pers.config import discovery

if TYPE_CHECKING:
  # Type checkers do not run the code below. Public names; others are Any.
  # pylint: disable=useless-import-alias
  from tff_pers.algorithms.fedhm import build_fedhm as build_fedhm
  from tff_pers.algorithms.fedhm import (
      FedHMHyperparameters as FedHMHyperparameters,
  )
  from tff_pers.algorithms.ffgg import (
      AsyncFFGGHyperparameters as AsyncFFGGHyperparameters,
  )
  from tff_pers.algorithms.ffgg import build_ffgg as build_ffgg
  from tff_pers.algorithms.ffgg import build_local_ffgg as build_local_ffgg
  from tff_pers.algorithms.ffgg import (
      FFGGHyperparameters as FFGGHyperparameters,
  )
  from tff_pers.algorithms.ffgg import (
      LocalFFGGHyperparameters as LocalFFGGHyperparameters,
  )
  from tff_pers.algorithms.floral import build_floral as build_floral
  from tff_pers.algorithms.floral import (
      FloralHyperparameters as FloralHyperparameters,
  )
  from tff_pers.algorithms.local_update import (
      build_local_update as build_local_update,
  )
  from tff_pers.algorithms.perm import build_perm as build_perm
  from tff_pers.algorithms.perm import build_shuffling as build_shuffling
  from tff_pers.algorithms.perm import (
      PermHyperparameters as PermHyperparameters,
  )
  from tff_pers.algorithms.perm import (
      ShufflingHyperparameters as ShufflingHyperparameters,
  )

  def __getattr__(name: str) -> Any:
    ...

globals().update(
    discovery.builders(discovery.import_modules(__name__, __path__))
)
