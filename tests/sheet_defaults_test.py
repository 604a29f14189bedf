"""Defaults that the spec sheets of the methods fix.

A default is the value that most published numbers were made with: that it has
changed shows in no other test, and makes every table another one.
"""

import inspect

import pytest
import tensorflow as tf

import baselines  # noqa: F401  Registers its methods.
from baselines import ensemble
from tff_pers import algorithms  # noqa: F401  As above.
from tff_pers.client_works import meta_gradient
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.models import adaptors

# Method, hyperparameter, value, section of the sheet.
_PERM = (
    ('perm', 'variant', 'single_loop', 'perm 4.1'),
    ('perm', 'local_steps', 20, 'perm 4: K'),
    ('perm', 'step_scale', 'clients', 'perm 2.3: s_i = N'),
    ('perm', 'step_cap', 'auto', 'perm 2.3: 4 with permutations'),
    ('perm', 'schedule', 'matching', 'perm 2.6: zero-skipping'),
    ('perm', 'init', 'global', 'perm 2.3'),
    ('perm', 'warmup_rounds', 10, 'perm 2.4: T_w'),
    ('perm', 'stage1_rounds', 50, 'perm 4.1'),
    ('perm', 'alpha_update', 'round', 'perm 2.4'),
    ('perm', 'one_trip', False, 'perm 2.4'),
    ('perm', 'solver', 'water_filling', 'perm 2.1'),
    ('perm', 'lambda', 'auto', 'perm 7, trap 3'),
    ('perm', 'lambda_scale', 'auto', 'ours: perm 7, trap 3, leaves it open'),
    ('perm', 'warmup', 'fedavg', 'ours'),
    ('perm', 'gradient_batch', 0, 'perm 7, trap 4: full local gradients'),
    ('perm', 'debias', 'none', 'perm 7, trap 4'),
    ('perm', 'freeze_after', 0, 'perm 7, trap 5'),
    ('perm', 'sketch', 0, 'perm 6'),
    ('perm', 'row_nonzeros', 0, 'perm 6'),
    ('oracle_groups', 'step_cap', 'auto', 'perm 2.3'),
    ('uniform_shuffling', 'step_cap', 'auto', 'perm 2.3'),
)
_FEDHM = (
    ('fedhm', 'tiers', 'all', 'fedhm 2.9'),
    ('fedhm', 'full_rank', 'auto', 'fedhm 2.4'),
    ('fedhm', 'rank_base', 'out_channels', 'fedhm 2.2'),
    ('fedhm', 'tau', 'auto', 'fedhm 2.8: inf with fixed tiers, else 5'),
    ('fedhm', 'frobenius_decay', 1e-4, 'fedhm 2.5: lambda'),
    ('fedhm', 'masked_loss', False, 'fedhm 2.6'),
)
_FLORAL = (
    ('floral', 'objective', 'fml', 'floral 1.2'),
    ('floral', 'router', 'learned', 'floral 2.1'),
    ('floral', 'adaptor_learning_rate', 'auto', 'floral 2.1: eta_lora = eta'),
    ('floral', 'server_optimizer', 'sgd', 'floral 2.2'),
    ('floral', 'server_learning_rate', 1.0, 'floral 2.2'),
    ('floral', 'adaptor_server_learning_rate', 'auto', 'floral 2.2: 1, too'),
    ('floral', 'router_noise', 0.0, 'floral 2.3'),
    ('floral', 'min_mix_prob', 0.0, 'floral 2.3'),
    ('floral', 'precondition', True, 'floral 2.4'),
    ('floral', 'center', False, 'floral 2.5'),
    ('floral', 'router_state', 'stateful', 'floral 2.6'),
    ('floral', 'router_warmup_steps', 20, 'floral 2.6'),
    ('floral', 'adapt_epochs', 5, 'ours: as the others'),
    ('floral', 'router_warmup_learning_rate', 1.0, 'floral 2.6'),
    ('floral', 'adapt_kernels', 'all', 'floral 5.7'),
    ('floral', 'conv_form', 'balanced_2d', 'floral 3.2'),
    ('floral', 'adapt_bias', True, 'floral 3.3'),
    ('floral', 'adapt_norm', False, 'floral 3.4'),
    ('floral', 'adapt_embedding', False, 'floral 3.5'),
    ('floral', 'zero_factor', 'output', 'floral 3.1'),
    ('floral', 'budget', 0.01, 'floral 5.3: FLoRAL(1 %)'),
    ('floral', 'min_rank', 0, 'ours: floral 3.1 has 1, min(4, m - 1) here'),
    ('floral', 'private_rank', 0, 'ours: Algorithm 1 has none'),
    ('floral', 'router_learning_rate', 0.1, 'floral 5.2'),
    ('floral', 'router_step', 'scale_free', 'ours: floral 2.1 has gradient'),
)
_BASELINES = (
    ('fedavg', 'server_learning_rate', 1.0, 'baselines 2.1'),
    ('fedavg', 'local_steps', 20, 'baselines 2.1'),
    ('fedavg', 'masked_loss', False, 'fedhm 3 has it; as fedhm 2.6 here'),
    ('fedavg_finetuned', 'steps', 0, 'baselines 2.2: as in training'),
    ('fedavg_finetuned', 'lr', 0.0, 'baselines 2.2: as in training'),
    ('fedavg_finetuned', 'layers', 'all', 'baselines 2.2'),
    ('perfedavg', 'variant', 'fo', 'baselines 13'),
    ('perfedavg', 'a', 0.1, 'baselines 13'),
    ('perfedavg', 'steps', 1, 'baselines 13'),
    ('pfedme', 'lam', 15.0, 'baselines 3.2'),
    ('pfedme', 'inner_steps', 5, 'baselines 3.2'),
    ('pfedme', 'inner_lr', 0.05, 'baselines 13'),
    ('pfedme', 'beta', 1.0, 'baselines 3.2'),
    ('pfedme', 'warm_start', False, 'baselines 3.2'),
    ('pfedme', 'deploy', 'recompute', 'baselines 3.2'),
    ('heterofl', 'tiers', 'all', 'baselines 13: of the task'),
    ('heterofl', 'width_rounding', 'round', 'baselines 7.1'),
    ('heterofl', 'scaler', 'auto', 'ours: baselines 13 has on, as with a norm'),
    ('heterofl', 'masked_loss', False, 'fedhm 3.1 has it; as fedhm 2.6 here'),
    ('fedrolex', 'width_rounding', 'round', 'baselines 7.1'),
    ('fedrolex', 'scaler', 'auto', 'ours: baselines 13 has on, as with a norm'),
    ('fedrolex', 'window', 'rolling', 'baselines 7.3'),
    ('fjord', 'width_rounding', 'round', 'baselines 7.1'),
    ('fjord', 'distill', False, 'baselines 13'),
    ('splitmix', 'width_rounding', 'round', 'baselines 7.1'),
    ('splitmix', 'masked_loss', False, 'fedhm 3 has it; as fedhm 2.6 here'),
    ('splitmix', 'budgets', 'auto', 'fedhm 3.3: from the sizes of the tiers'),
    ('apfl', 'alpha0', 0.5, 'baselines 3.3'),
    ('apfl', 'adaptive', True, 'baselines 3.3'),
    ('fedala', 'layers', 1, 'neighbours 4: p'),
    ('fedala', 'share', 0.8, 'neighbours 4: s'),
    ('fedala', 'mixing_learning_rate', 1.0, 'neighbours 4: eta_W'),
    ('knn_per', 'k', 10, 'neighbours 6'),
    ('knn_per', 'max_store', 1000, 'ours: the sheet gives no number'),
    ('ditto', 'lambda', 1.0, 'baselines 3.4'),
    ('ditto', 'personal_steps', 0, 'baselines 3.4: K_p = K'),
    ('ditto', 'personal_learning_rate', 0.0, 'baselines 3.4: eta_p = eta'),
    ('ditto', 'mode', 'joint', 'baselines 3.4'),
    ('fedem', 'num_models', 0, 'ours: as the others; baselines 4.1 has 3'),
    ('fedem', 'adapt_epochs', 5, 'baselines 4.1'),
    ('ifca', 'average', 'model', 'baselines 13'),
    ('ifca', 'num_models', 0, 'baselines 4.2: the true number'),
    ('ensemble', 'num_models', 0, 'baselines 13: the true number'),
    ('ensemble', 'router', 'learned', 'baselines 4.3'),
    ('ensemble', 'router_learning_rate', 0.1, 'baselines 13'),
    ('ensemble', 'adapt_epochs', 5, 'ours: as the others'),
    ('ensemble', 'mix', 'logits', 'baselines 4.3'),
    ('local_adaptor', 'budget', 0.01, 'floral 4'),
    ('local_adaptor', 'min_rank', 0, 'ours, as floral'),
    ('local_adaptor', 'precondition', True, 'baselines 4.4'),
    ('local_adaptor', 'adapt_epochs', 5, 'baselines 4.4'),
    ('fedavgm', 'server_learning_rate', 1.0, 'baselines 2.5'),
    ('fedavgm', 'beta', 0.9, 'baselines 2.5'),
    ('fedavgm', 'nesterov', False, 'baselines 2.5: heavy ball'),
    ('fedprox', 'server_learning_rate', 1.0, 'baselines 2.4: as FedAvg'),
    ('fedprox', 'epochs_range', 'off', 'baselines 2.4'),
    ('reptile', 'outer_step', 1.0, 'baselines 2.7'),
    ('reptile', 'outer_final', 1.0, 'baselines 2.7'),
    ('reptile', 'steps', 0, 'baselines 2.7: s = J'),
    ('fomaml', 'steps', 0, 'baselines 2.7: s = J'),
    ('maml', 'alpha', 0.0, 'local update 1.5'),
    ('maml', 'stop_gradient_anchor', True, 'local update 1.5'),
    ('maml', 'outer', 'proximal', 'local update 1.5'),
    ('local_update', 'alpha', 0.0, 'local update 1.1'),
    ('local_update', 'beta', 0.9, 'local update 3'),
    ('mime_lite', 'beta', 0.9, 'baselines 2.6'),
    ('mime_lite', 'server_learning_rate', 1.0, 'baselines 2.6'),
    ('fedadagrad', 'beta1', 0.9, 'baselines 2.5'),
    ('fedadagrad', 'epsilon', 1e-3, 'baselines 2.5'),
    ('fedadagrad', 'initial_v', 'auto', 'baselines 2.5: epsilon squared'),
    ('fedadam', 'beta1', 0.9, 'baselines 2.5'),
    ('fedadam', 'beta2', 0.99, 'baselines 2.5'),
    ('fedadam', 'epsilon', 1e-3, 'baselines 2.5'),
    ('fedyogi', 'beta1', 0.9, 'baselines 2.5'),
    ('fedyogi', 'beta2', 0.99, 'baselines 2.5'),
    ('fedyogi', 'epsilon', 1e-3, 'baselines 2.5'),
    ('fedasync', 'alpha', 0.6, 'baselines 8.1'),
    ('fedasync', 'staleness', 'polynomial', 'baselines 8.1'),
    ('fedasync', 'exponent', 0.5, 'baselines 8.1: a'),
    ('fedasync', 'hinge_slope', 10.0, 'baselines 8.1: a'),
    ('fedasync', 'hinge_start', 4, 'baselines 8.1: h'),
    ('fedasync', 'rho', 0.0, 'baselines 8.1'),
    ('fedbuff', 'buffer_size', 10, 'baselines 8.2: B'),
    ('fedbuff', 'server_learning_rate', 1.0, 'baselines 8.2'),
    ('fedbuff', 'staleness', 'polynomial', 'baselines 8.2'),
    ('fedbuff', 'exponent', 0.5, 'baselines 8.2'),
    ('fedbuff', 'normalize', 'buffer', 'baselines 8.2'),
    ('fedper', 'split', 'output_layer', 'baselines 6.3'),
    ('fedsim', 'split', 'output_layer', 'baselines 13'),
    ('fedsim', 'private_learning_rate', 0.0, 'baselines 6.1: eta_w = eta'),
    ('fedsim', 'adapt_epochs', 5, 'baselines 6'),
    ('fedalt', 'split', 'output_layer', 'baselines 13'),
    ('fedalt', 'stateless', False, 'baselines 13'),
    ('fedalt', 'private_epochs', 0, 'baselines 0.2.4: both lines alike'),
    ('fedalt', 'private_steps', 0, 'baselines 0.2.4: both lines alike'),
    ('fedrep', 'split', 'output_layer', 'baselines 13'),
    ('fedrep', 'private_epochs', 10, 'baselines 6.4: tau_w'),
    ('fedrep', 'local_epochs', 1, 'baselines 6.4: tau_theta'),
    ('fedrep', 'local_steps', 0, 'baselines 6.4: epochs'),
    ('fedrecon', 'private_epochs', 5, 'baselines 6.5'),
    ('fedrecon', 'private_steps', 50, 'baselines 6.5'),
    ('fedrecon', 'halves', True, 'baselines 13'),
    ('fedrecon', 'joint', False, 'baselines 6.5'),
    ('fedrecon', 'server_optimizer', 'sgd', 'baselines 6.5: MovieLens'),
    ('scaffold', 'option', '2', 'baselines 5'),
    ('scaffold', 'server_learning_rate', 1.0, 'baselines 5'),
    ('l2gd', 'lambda', 0.1, 'baselines 3.5'),
    ('l2gd', 'p', 'auto', 'baselines 13: lambda / (L + lambda), or 1 / K'),
    ('l2gd', 'smoothness', 0.0, 'baselines 13: L is unknown'),
    ('fedamp', 'lambda', 0.05, 'ours: neighbours 2 has 1 in another unit'),
    ('fedamp', 'sigma', 2.0, 'ours: neighbours 2 has 1, at which pairs form'),
    ('fedamp', 'sigma_absolute', False, 'neighbours 2'),
    ('fedamp', 'pull', 0.5, 'neighbours 2'),
    ('fedamp', 'variant', 'attention', 'neighbours 2'),
    ('fedamp', 'start', 'own', 'neighbours 2'),
    ('fedfomo', 'num_models', 5, 'neighbours 3: M'),
    ('pfedgraph', 'lambda', 0.8, 'neighbours 5'),
    ('pfedgraph', 'mu', 0.01, 'neighbours 5'),
)
_PARTIAL = (
    ('ffgg', 'split', 'output_layer', 'partial 5.2'),
    ('ffgg', 'tuner', 'sgd', 'partial 9'),
    ('ffgg', 'local_steps', 0, 'partial 9: epochs'),
    ('ffgg', 'local_epochs', 1, 'partial 9: one epoch'),
    ('ffgg', 'private_init', 'initial', 'partial 7, trap 5'),
    ('ffgg', 'stateful', False, 'partial 1.4'),
    ('ffgg', 'server_optimizer', 'sgd', 'partial 2.1'),
    ('ffgg', 'pretrain_rounds', 0, 'partial 5.3: stage 2 alone'),
    ('ffgg', 'adapt_epochs', 5, 'partial 5.3: stage 3'),
    ('async_ffgg', 'server_learning_rate', 'auto', 'partial 2.4: Theorem 7'),
    ('local_ffgg', 'private_epochs', 1, 'partial 2.3 (ii)'),
    ('local_ffgg', 'private_steps', 0, 'partial 2.3 (ii)'),
    ('local_ffgg', 'private_learning_rate', 0.0, 'partial 5.4: one rate'),
    ('local_ffgg', 'local_epochs', 1, 'partial 7, trap 6'),
    ('local_ffgg', 'server_learning_rate', 1.0, 'partial 2.3'),
    ('local_ffgg', 'server_beta1', 0.9, 'partial 5.4'),
    ('local_ffgg', 'server_beta2', 0.999, 'partial 5.4'),
    ('local_ffgg', 'server_epsilon', 1e-8, 'partial 5.4'),
    ('local_ffgg', 'pretrain_server_learning_rate', 1.0, 'partial 5.4: EMNIST'),
)
# Function, argument, value, section of the sheet.
_ARGUMENTS = (
    (adaptors.AdaptedModel.precondition, 'eps', 1e-5, 'floral 2.4'),
    (adaptors.AdaptedModel.precondition, 'conv_norm', 'spatial', 'floral 2.4'),
    (adaptors.floral, 'conv_form', 'balanced_2d', 'floral 3.2'),
    (adaptors.floral, 'zero_factor', 'output', 'floral 3.1'),
    (adaptors.floral, 'rank_rule', 'paper', 'floral 3.2'),
    (adaptors.floral, 'min_rank', 1, 'floral 3.1'),
    (adaptors.floral, 'adapt_bias', True, 'floral 3.3'),
    (adaptors.floral, 'adapt_norm', False, 'floral 3.4'),
    (adaptors.floral, 'adapt_embedding', False, 'floral 3.5'),
)


@pytest.mark.parametrize(
    'method, name, value, section',
    _PERM + _FLORAL + _FEDHM + _PARTIAL + _BASELINES,
)
def test_hyperparameter(method, name, value, section):
  found = hp.as_dict(methods.get(method).hyperparameters())[name]
  assert found == value and type(found) is type(value), section


@pytest.mark.parametrize('function, name, value, section', _ARGUMENTS)
def test_argument(function, name, value, section):
  assert inspect.signature(function).parameters[name].default == value, section


def test_constants():
  """Ensemble: baselines 4.3. Step of the finite difference: baselines 3.1."""
  assert ensemble._SKIPPED == 1e-3  # pylint: disable=protected-access
  steps = meta_gradient._RELATIVE_STEP  # pylint: disable=protected-access
  assert steps == {tf.float32: 1e-2, tf.float64: 1e-4}
