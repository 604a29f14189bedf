"""Planted faults of FedALA and kNN-Per."""

from tests.mutants.faults import Fault

_ALA = 'tff_pers/client_works/local_aggregation.py'
_FEDALA = 'baselines/fedala.py'
_FEDALA_TEST = 'tests/baselines/fedala_test.py'
_ROUNDS = f'{_FEDALA_TEST}::test_rounds_are_those_of_numpy'
_HEAD = f'{_FEDALA_TEST}::test_mixing_of_zero_is_a_local_head'
_NEIGHBOURS = 'tff_pers/models/neighbours.py'
_KNN = 'baselines/knn_per.py'
_KNN_TEST = 'tests/baselines/knn_per_test.py'
_NUMPY = f'{_KNN_TEST}::test_predictions_are_those_of_numpy'
_NUMBERS = (
    f'{_KNN_TEST}::test_numbers_are_mixed_with_the_mean_of_the_neighbours'
)

FAULTS = (
    Fault(
        'mixing_of_one_is_the_own_model',
        what='W weighs the own model, not the received one.',
        file=_ALA,
        old='lambda v, w, share: v + (w - v) * share',
        new='lambda v, w, share: w + (v - w) * share',
        tests=(_HEAD,),
    ),
    Fault(
        'mixing_climbs',
        what='W moves along the gradient.',
        file=_ALA,
        old='share - rate * g * d',
        new='share + rate * g * d',
        tests=(
            f'{_FEDALA_TEST}'
            '::test_the_gradient_of_the_mixing_is_that_of_the_loss',
        ),
    ),
    Fault(
        'mixing_is_not_clipped_above',
        what='W may be larger than 1.',
        file=_ALA,
        old='tf.clip_by_value(share - rate * g * d, 0, 1)',
        new='tf.maximum(share - rate * g * d, 0)',
        tests=(f'{_FEDALA_TEST}::test_mixing_is_clipped_at_both_ends',),
    ),
    Fault(
        'mixing_settles_at_once',
        what='A client that learns W for the first time takes one pass, too.',
        file=_FEDALA,
        old='_FIRST_PASSES, 1)',
        new='1, 1)',
        tests=(_ROUNDS,),
    ),
    Fault(
        'mixing_is_learned_on_the_rest',
        what='W is learned on the examples that should be left out.',
        file=_FEDALA,
        old='use=1)\n      )[1]',
        new='use=1)\n      )[0]',
        tests=(_ROUNDS,),
    ),
    Fault(
        'lower_layers_stay',
        what='All layers start from the own model, also the lower ones.',
        file=_FEDALA,
        old='parts.merge(body, local_aggregation',
        new="parts.merge(parts.split(state['weights'])[0], local_aggregation",
        tests=(_HEAD,),
    ),
    Fault(
        'updates_are_from_the_own_model',
        what='The update is theta_i before the round minus that after it.',
        file=_FEDALA,
        old='local_sgd.difference(theta, u),  # Not h - u.',
        new="local_sgd.difference(state['weights'], u),",
        tests=(_ROUNDS,),
    ),
    Fault(
        'distances_have_no_scale',
        what='Distances are not relative to those within the store.',
        file=_NEIGHBOURS,
        old="-apart / store['scale']",
        new='-apart',
        tests=(_NUMBERS,),
    ),
    Fault(
        'squared_distances_weigh',
        what='Neighbours weigh by exp(-d^2).',
        file=_NEIGHBOURS,
        old="    apart = tf.sqrt(distances.to_points(\n"
        "        features - mean, store['features'] - mean\n    ))\n",
        new="    apart = distances.to_points(\n"
        "        features - mean, store['features'] - mean\n    )\n",
        tests=(_NUMPY,),
    ),
    Fault(
        'an_example_is_at_no_distance_from_itself',
        what='The median counts the distances of examples to themselves.',
        file=_NEIGHBOURS,
        old='counts & ~tf.eye(tf.shape(y)[0], dtype=tf.bool)',
        new='counts',
        tests=(_NUMBERS,),
    ),
    Fault(
        'empty_places_are_neighbours',
        what='Padding of the store counts as examples of class 0.',
        file=_NEIGHBOURS,
        old="is_held = places < tf.maximum(store['size'], 1)",
        new='is_held = places >= 0',
        tests=(_NUMPY,),
    ),
    Fault(
        'lambda_is_the_share_of_the_model',
        what='lambda weighs the model, 1 - lambda the neighbours.',
        file=_NEIGHBOURS,
        old='tf.stack([1 - mixing, mixing])',
        new='tf.stack([mixing, 1 - mixing])',
        tests=(
            f'{_KNN_TEST}'
            '::test_the_nearest_of_the_examples_themselves_is_exact',
        ),
    ),
    Fault(
        'lambda_is_chosen_on_what_the_store_holds',
        what='The held-out fifth is in the store that it is asked about.',
        file=_KNN,
        old='build_store(neighbours, weights, kept), apart',
        new='build_store(neighbours, weights, data), apart',
        tests=(_NUMPY,),
    ),
    Fault(
        'the_held_out_never_join_the_store',
        what='The store holds four fifths of the examples.',
        file=_KNN,
        old='            data, 0.0, client_work',
        new='            data, 0.2, client_work',
        tests=(_NUMPY,),
    ),
    Fault(
        'the_first_examples_fill_the_store',
        what='Where a store is too small it holds the first examples.',
        file=_KNN,
        old='store=memorization.build_store(neighbours, weights, held_out.split(\n'
        '            data, 0.0, client_work.key(message, data, use=2)\n'
        '        )[0]),',
        new='store=memorization.build_store(neighbours, weights, data),',
        tests=(
            f'{_KNN_TEST}::test_more_examples_than_it_can_hold_are_drawn',
        ),
    ),
    Fault(
        'any_last_layer_has_features',
        what='The inputs of a layer with a softmax are taken through it.',
        file='tff_pers/models/last_layer.py',
        old='  if not _is_linear(layer):\n',
        new='  if False:\n',
        tests=(f'{_KNN_TEST}::test_models_without_features_are_refused',),
    ),
)
