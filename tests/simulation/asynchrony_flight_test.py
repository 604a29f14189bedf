"""Messages in flight: which tasks are computed together."""

import types

from tff_pers.simulation import asynchrony_flight


def test_a_client_with_two_tasks_starts_the_second_from_what_the_first_left():
  """A client's state counts its tasks; client 0 has two, client 1 has one."""
  states, calls, seeds = {0: 0, 1: 0}, [], []
  clients = [0, 0, 1]

  def work(messages, of_clients, data):
    del data
    calls.append([message['w'] for message in messages])
    seeds.extend(int(message['seed']) for message in messages)
    return [dict(client_state=state + 1) for state in of_clients]

  flight = asynchrony_flight.Flight(
      types.SimpleNamespace(dispatch=lambda state, chosen: list(state), work=work),
      lambda tasks: ([states[clients[t]] for t in tasks], [None] * len(tasks)),
      clients,
  )
  flight.send([dict(seed=7, w=w) for w in (0, 1, 2)], [0, 1, 2], clients)
  states[1] = flight.answer(2)['client_state']
  assert calls == [[0, 2]] and flight.tasks() == [0, 1]
  states[0] = flight.answer(0)['client_state']
  states[0] = flight.answer(1)['client_state']
  assert calls == [[0, 2], [1]] and states == {0: 2, 1: 1}
  # Else its second task would be the first one again.
  assert seeds[:2] == [7, 7] and seeds[2] != 7
