"""The native runtime: TFF's own C++ worker, a child of this process."""

from tff_pers.runtime.native.runtime import drop_default_context
from tff_pers.runtime.native.runtime import get_context
from tff_pers.runtime.native.runtime import stop
from tff_pers.runtime.native.runtime import use
from tff_pers.runtime.native.runtime import worker_pid

__all__ = ('drop_default_context', 'get_context', 'stop', 'use', 'worker_pid')
