"""An executor that holds values unchanged, for contexts of TFF."""

from typing import Any, Callable

from tff_pers import tff
# Not exported by TFF: the interface of its executors.
from tensorflow_federated.python.core.impl.executors import executor_base
from tensorflow_federated.python.core.impl.executors import executor_value_base


class HeldValue(executor_value_base.ExecutorValue):
  """A Python value, or a compiled computation, and its TFF type."""

  def __init__(self, value: Any, type_signature: tff.Type):
    self.value = value
    self._type_signature = type_signature

  @property
  def type_signature(self) -> tff.Type:
    """Its TFF type."""
    return self._type_signature

  @property
  def reference(self) -> Any:
    """The value itself."""
    return self.value

  async def compute(self):
    """Returns the value."""
    return self.value


class HoldingExecutor(executor_base.Executor):
  """The executor of a TFF context: collects the argument, then calls."""

  def __init__(self, call: Callable[[Any, Any], Any]):
    """Initializes it by `(computation, argument or None) -> result`."""
    self._call = call

  def close(self) -> None:
    """Holds nothing between calls."""

  async def create_value(self, value, type_spec=None):
    """Returns a value, held with its TFF type."""
    return HeldValue(value, type_spec)

  async def create_struct(self, elements):
    """Returns one held struct of held elements, with their names."""
    named = tff.structure.to_elements(tff.structure.from_container(elements))
    return HeldValue(
        tff.structure.Struct([(name, each.value) for name, each in named]),
        tff.StructType([(name, each.type_signature) for name, each in named]),
    )

  async def create_selection(self, source, index):
    """Returns element `index` of a held struct."""
    return HeldValue(source.value[index], source.type_signature[index])

  async def create_call(self, comp, arg=None):
    """Calls a held computation with a held argument, or with none."""
    result = self._call(comp.value, None if arg is None else arg.value)
    return HeldValue(result, comp.type_signature.result)
