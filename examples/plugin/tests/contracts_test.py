"""The method and the task fulfil the contracts of tff_pers."""

from tff_pers.testing.contracts import *
from tff_pers_example import fednova, moons

METHODS = ('fednova',)
TASKS = ('moons',)
