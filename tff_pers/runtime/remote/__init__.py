"""The remote runtime: TFF's C++ workers on several hosts."""

from tff_pers.runtime.remote.runtime import RemoteError
from tff_pers.runtime.remote.runtime import WrongWorkerError
from tff_pers.runtime.remote.runtime import use

__all__ = ('RemoteError', 'WrongWorkerError', 'use')
