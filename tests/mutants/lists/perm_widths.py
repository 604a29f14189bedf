"""Planted faults of PERM whose clients own models of different width."""

from tests.mutants.faults import Fault

_DEVICES = 'tff_pers/algorithms/perm/perm_devices.py'
_VISITS = 'tff_pers/algorithms/perm/visits.py'
_TEST = 'tests/algorithms/perm/perm_devices_test.py'
_VISIT = (f'{_TEST}::test_a_visit_trains_the_units_that_both_have',)
_DISTANCES = (f'{_TEST}::test_distances_are_those_of_numpy',)
_GRADIENTS = (
    f'{_TEST}::test_gradients_are_those_of_a_client_s_own_model',
)
_CAPACITY = (f'{_TEST}::test_capacity_is_a_linear_term',)
_MEANS = (
    f'{_TEST}::test_w_moves_by_means_over_the_clients_that_have_a_coordinate',
)
_BYTES = (f'{_TEST}::test_bytes_of_a_visit_are_those_of_what_both_have',)
_DEPLOYED = (f'{_TEST}::test_clients_deploy_the_models_of_their_tiers',)

FAULTS = (
    Fault(
        'narrow_hosts_train_all',
        what='A host trains all that the owner has.',
        file=_DEVICES,
        old='self.parts.switch(self.parts.narrower(owned, host), within)',
        new='self.parts.switch(owned, within)',
        tests=_VISIT,
    ),
    Fault(
        'narrow_owners_grow',
        what='A host trains what it has, not what the owner has.',
        file=_DEVICES,
        old='self.parts.switch(self.parts.narrower(owned, host), within)',
        new='self.parts.switch(host, within)',
        tests=_VISIT,
    ),
    Fault(
        'wider_of_both',
        what='A visit trains the larger width of the two.',
        file='tff_pers/models/submodels.py',
        old='tf.gather(widths, tier) <= tf.gather(widths, other)',
        new='tf.gather(widths, tier) >= tf.gather(widths, other)',
        tests=_VISIT,
    ),
    Fault(
        'rest_becomes_zero',
        what='A visit clears what it does not train.',
        file=_DEVICES,
        old='submodels.replace(self.model, weights, final, kept), loss',
        new='submodels.expand(self.model, final, kept), loss',
        tests=_VISIT,
    ),
    Fault(
        'update_is_not_masked',
        what='What a client does not have decays.',
        file=_DEVICES,
        old='update=tf.nest.map_structure(tf.multiply, kept, update),',
        new='update=update,',
        tests=_MEANS,
    ),
    Fault(
        'mean_over_all_clients',
        what='w moves by means over all, with zeros of who lacks a coordinate.',
        file=_DEVICES,
        old='        kept=kept,\n',
        new='        kept=tf.nest.map_structure(tf.ones_like, kept),\n',
        tests=_MEANS,
    ),
    Fault(
        'gradient_of_the_whole_model',
        what='Narrow clients measure the gradient of the whole model.',
        file=_DEVICES,
        old='self.tier(index), lambda k: compute(self._tiers.within[k])',
        new='self.tier(index), lambda k: compute(self.model)',
        tests=_GRADIENTS,
    ),
    Fault(
        'variance_is_not_scaled',
        what='Variances are not in units of distances.',
        file=_DEVICES,
        old='return variance / tf.cast(self.share(index), variance.dtype)',
        new='return variance',
        tests=_GRADIENTS,
    ),
    Fault(
        'distances_of_few_are_small',
        what='Distances are not divided by the share of the coordinates.',
        file=_DEVICES,
        old='of_tier / tf.constant(share, of_tier.dtype), 0',
        new='of_tier + 0 * tf.constant(share, of_tier.dtype), 0',
        tests=_DISTANCES,
    ),
    Fault(
        'distances_in_the_wider',
        what='Gradients are compared in what the owner has.',
        file=_DEVICES,
        old=(
            'self._tiers.narrower(self.tier(owners)[:, None], self.tier(clien'
            'ts))'
        ),
        new='self.tier(owners)[:, None] + 0 * self.tier(clients)',
        tests=_DISTANCES,
    ),
    Fault(
        'rows_for_clients',
        what='The number of a row is taken for that of a client.',
        file=_DEVICES,
        old='self._both(clients, tf.gather(clients, owners))',
        new='self._both(clients, owners)',
        tests=_DISTANCES,
    ),
    Fault(
        'capacity_of_the_other',
        what='The dimension is that of the source, not of the learner.',
        file=_DEVICES,
        old="of_learner = self.vc_of == 'learner'",
        new="of_learner = self.vc_of == 'source'",
        tests=_CAPACITY,
    ),
    Fault(
        'capacity_without_its_root',
        what='The added term falls as 1 / n_j.',
        file=_DEVICES,
        old='self.vc * tf.sqrt(dimension / tf.maximum(sizes, 1.0))',
        new='self.vc * tf.sqrt(dimension) / tf.maximum(sizes, 1.0)',
        tests=_CAPACITY,
    ),
    Fault(
        'hosts_are_their_own_owners',
        what='A visit does not say whose model it is.',
        file=_VISITS,
        old='weights, data, owner=owner,',
        new='weights, data,',
        tests=_BYTES,
    ),
    Fault(
        'bytes_of_the_host',
        what='A visit counts all that the host could take.',
        file=_DEVICES,
        old='      tier = self.parts.narrower(tier, self.tier(other))',
        new='      pass',
        tests=_BYTES,
    ),
    Fault(
        'bytes_of_the_whole_model',
        what='Line (a) counts the whole model.',
        file='tff_pers/algorithms/perm/perm_client.py',
        old=(
            '            bytes_down=share * used(tf.logical_or(moves, measure'
            'd))'
        ),
        new='            bytes_down=used(tf.logical_or(moves, measured))',
        tests=_MEANS,
    ),
    Fault(
        'all_deploy_the_largest_tier',
        what='Clients deploy a wider model than they own.',
        file=_DEVICES,
        old='return self.parts.first_units(weights, self.tier(index))',
        new='return self.parts.first_units(weights, 0 * self.tier(index))',
        tests=_DEPLOYED,
    ),
    Fault(
        'new_clients_deploy_the_first_tier',
        what='New clients have the model of client 0.',
        file='tff_pers/algorithms/perm/own_rows.py',
        old="deployed(row, data), data['index']",
        new="deployed(row, data), 0 * data['index']",
        tests=_DEPLOYED,
    ),
)
