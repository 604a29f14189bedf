"""Tasks by name; importing this package finds and registers all of them."""

from tff_pers.config import discovery
from tff_pers.data.tasks.own_arrays import register_npz
from tff_pers.data.tasks.registry import Declaration
from tff_pers.data.tasks.registry import get
from tff_pers.data.tasks.registry import names
from tff_pers.data.tasks.registry import NoOptions
from tff_pers.data.tasks.registry import partitions
from tff_pers.data.tasks.registry import refuse
from tff_pers.data.tasks.registry import register
from tff_pers.data.tasks.registry import TaskFamily
from tff_pers.data.tasks.registry import TaskRequest

__all__ = (
    'Declaration',
    'NoOptions',
    'TaskFamily',
    'TaskRequest',
    'get',
    'names',
    'partitions',
    'refuse',
    'register',
    'register_npz',
)

discovery.import_modules(__name__, __path__)
