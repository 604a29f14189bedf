"""Planted faults of the remote runtime: leases, TLS, the tree of merges."""

from tests.mutants.faults import Fault

_RELAY = 'tff_pers/runtime/serving/relay.py'
_LEASE = 'tff_pers/runtime/serving/lease.py'
_TLS = 'tff_pers/runtime/serving/tls.py'
_ROUND = 'tff_pers/runtime/remote/round.py'
_WORKER = 'tff_pers/runtime/worker_process.py'
_NATIVE_TEST = 'tests/runtime/native_test.py'
_SERVING_TEST = 'tests/runtime/serving_test.py'
_TLS_TEST = 'tests/runtime/tls_test.py'
_ROUND_TEST = 'tests/runtime/round_test.py'

FAULTS = (
    Fault(
        'anybody_passes',
        what='Connections are passed on without a lease.',
        file=_RELAY,
        old='      elif self._leases and self._worker is not None:\n',
        new='      elif self._worker is not None:\n',
        tests=(f'{_SERVING_TEST}::test_nobody_passes_without_a_lease',),
    ),
    Fault(
        'two_drivers',
        what='A second driver gets the worker of the first.',
        file=_RELAY,
        old="    if self._leases and self._program != driver['program']:\n",
        new='    if self._worker is None:\n',
        tests=(f'{_SERVING_TEST}::test_one_program_has_the_worker',),
    ),
    Fault(
        'no_fresh_worker',
        what='The next driver gets the worker with what the last one left.',
        file=_RELAY,
        old='      self._worker, self._last = None, self._name\n',
        new='      self._last = self._name\n',
        tests=(
            f'{_SERVING_TEST}'
            '::test_after_a_driver_the_worker_is_started_before_the_next',
        ),
    ),
    Fault(
        'calls_outlive_the_lease',
        what='Connections of a driver without a lease go on.',
        file=_RELAY,
        old='      connection.transport.abort()\n',
        new='      del connection\n',
        tests=(
            f'{_SERVING_TEST}'
            '::test_the_end_of_a_lease_ends_the_calls_of_its_driver',
        ),
    ),
    Fault(
        'cut_off_driver_keeps_the_lease',
        what='A driver that is cut off has the worker for hours.',
        file=_RELAY,
        old='    lease.keep_alive(listener)\n',
        new='',
        tests=(
            f'{_SERVING_TEST}::test_a_driver_that_is_cut_off_loses_the_lease',
        ),
    ),
    Fault(
        'cut_off_driver_believes_for_ever',
        what='A driver that is cut off takes its lease for valid.',
        file=_LEASE,
        old='  keep_alive(connection)\n',
        new='',
        tests=(
            f'{_SERVING_TEST}::test_a_driver_that_is_cut_off_loses_the_lease',
        ),
    ),
    Fault(
        'any_version',
        what='Workers of other versions are taken.',
        file=_LEASE,
        old="    if answer['version'] != version():\n",
        new="    if not answer['version']:\n",
        tests=(f'{_SERVING_TEST}::test_a_foreign_server_is_one_sentence',),
    ),
    Fault(
        'no_client_certificates',
        what='A worker with TLS serves drivers that show no certificate.',
        file=_TLS,
        old='  context.verify_mode = ssl.CERT_REQUIRED\n',
        new='  context.verify_mode = ssl.CERT_NONE\n',
        tests=(
            f'{_TLS_TEST}::test_refuses_the_certificate_of_another_authority',
        ),
    ),
    Fault(
        'worker_on_all_interfaces',
        what='TFF\'s worker listens on all interfaces, past all TLS.',
        file=_WORKER,
        old='_ADDRESS = f\'unix:/proc/{{}}/cwd/{_SOCKET}\'\n',
        new='_ADDRESS, _SOCKET = \'localhost:18999\', 18999\n'
        '_UNIX_SOCKET = _ALL_INTERFACES\n',
        tests=(f'{_NATIVE_TEST}::test_nobody_else_reaches_the_worker',),
    ),
    Fault(
        'anybody_enters_the_folder',
        what='Every user of the machine can connect to the worker.',
        file=_WORKER,
        old='    self._launch()\n\n  def _launch',
        new='    os.chmod(self._folder.name, 0o755)\n'
        '    self._launch()\n\n  def _launch',
        tests=(f'{_NATIVE_TEST}::test_nobody_else_reaches_the_worker',),
    ),
    Fault(
        'left_workers_go_on',
        what='What a killed driver left stays, and is computed on.',
        file='tff_pers/runtime/serving/host.py',
        old='    if relay.left:\n',
        new='    if relay.left == 0:\n',
        tests=(
            'tests/runtime/killed_driver_test.py'
            '::test_workers_of_a_killed_driver_are_idle_and_free',
        ),
    ),
    Fault(
        'operands_swapped',
        what='Accumulators are not merged in the workers\' order.',
        file=_ROUND,
        old='    operands = [self._refs[left][pack], '
        'self._sessions[left].create(partial)]\n',
        new='    operands = [self._sessions[left].create(partial), '
        'self._refs[left][pack]]\n',
        tests=(f'{_ROUND_TEST}::test_neighbours_merge_at_the_same_time',),
    ),
    Fault(
        'merges_in_turn',
        what='All accumulators are merged at the first worker.',
        file=_ROUND,
        old='      lefts = range(0, count - distance, 2 * distance)\n',
        new='      lefts = range(0, 1)\n',
        tests=(f'{_ROUND_TEST}::test_neighbours_merge_at_the_same_time',),
    ),
)
