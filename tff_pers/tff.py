"""TensorFlow Federated, as all modules here import it: `from tff_pers import tff`.

After 0.87 TFF has its language in a package of its own, `federated_language`.
To move there changes the second half of this module, and no other. Modules that
TFF does not publish are imported in `tff_pers.runtime` alone.
"""
# flake8: noqa: F401

# What stays with TFF.
from tensorflow_federated import __version__
from tensorflow_federated import aggregators
from tensorflow_federated import backends
from tensorflow_federated import learning
from tensorflow_federated import simulation
from tensorflow_federated import structure
from tensorflow_federated import templates
from tensorflow_federated import tensorflow
from tensorflow_federated import types

# What moves. Of `framework` TFF keeps its executors.
from tensorflow_federated import CLIENTS
from tensorflow_federated import Computation
from tensorflow_federated import federated_aggregate
from tensorflow_federated import federated_broadcast
from tensorflow_federated import federated_computation
from tensorflow_federated import federated_eval
from tensorflow_federated import federated_map
from tensorflow_federated import federated_mean
from tensorflow_federated import federated_select
from tensorflow_federated import federated_sum
from tensorflow_federated import federated_value
from tensorflow_federated import federated_zip
from tensorflow_federated import FederatedType
from tensorflow_federated import framework
from tensorflow_federated import FunctionType
from tensorflow_federated import program
from tensorflow_federated import SequenceType
from tensorflow_federated import SERVER
from tensorflow_federated import StructType
from tensorflow_federated import TensorType
from tensorflow_federated import to_type
from tensorflow_federated import Type
