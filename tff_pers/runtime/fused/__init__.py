"""The fused runtime: a whole round as one TensorFlow function.

`runtime` installs it. A computation becomes a program of `stages`; `mapping`
runs the clients of a stage according to a `schedule`. `values` turns arguments
into tensors and tensors into results, `graphs` puts TFF's TensorFlow graphs
into the function that is being traced.
"""

from tff_pers.runtime.fused.devices import find as find_devices
from tff_pers.runtime.fused.runtime import AsyncFusedContext
from tff_pers.runtime.fused.runtime import Executor
from tff_pers.runtime.fused.runtime import FusedContext
from tff_pers.runtime.fused.runtime import STRATEGIES
from tff_pers.runtime.fused.runtime import use

__all__ = (
    'AsyncFusedContext', 'Executor', 'FusedContext', 'STRATEGIES',
    'find_devices', 'use',
)
