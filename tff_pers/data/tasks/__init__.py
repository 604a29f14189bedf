"""Tasks by name; importing this package registers all of them."""

from tff_pers.data.tasks import cifar
from tff_pers.data.tasks import digits
from tff_pers.data.tasks import floral_label_shift
from tff_pers.data.tasks import floral_regression
from tff_pers.data.tasks import mnist
from tff_pers.data.tasks import own_data
from tff_pers.data.tasks import synthetic_groups
from tff_pers.data.tasks.registry import get
from tff_pers.data.tasks.registry import names
from tff_pers.data.tasks.registry import refuse
from tff_pers.data.tasks.registry import register
from tff_pers.data.tasks.registry import TaskFamily
from tff_pers.data.tasks.registry import TaskRequest

__all__ = (
    'TaskFamily',
    'TaskRequest',
    'cifar',
    'digits',
    'floral_label_shift',
    'floral_regression',
    'get',
    'mnist',
    'names',
    'own_data',
    'refuse',
    'register',
    'synthetic_groups',
)
