// Clients: results of each method per client, and clients that are hurt.

const HURT = 'var(--hurt)', HELPED = 'var(--helped)', EVEN = 'var(--even)';

/** Returns the section about clients, null if no run is finished. */
function clientSection(group, view) {
  const clients = group.clients;
  if (!clients.runs.length) return null;
  const labels = group.curves.map(curve => curve.label)
      .filter(label => clients.runs.some(run => run.label === label));
  const strips = laneFigure(
      () => labels.filter(label => !view.hidden.has(label)).map(
          label => stripOf(group, label)),
      {title: () => `Test ${clients.metric} of a client`,
       baseline: clients.baseline,
       within: clients.isHigherBetter ? [0, 1] : null});
  view.watchers.push(strips.redraw);
  const unseen = Object.values(clients.seeds).some(seed => seed.unseen.length);
  return make(
      'section', {}, make('h3', {}, 'Clients'), strips,
      make('p', {class: 'note'},
           'Each dot is a client (with one seed), the line is the mean. For' +
           ' many clients, bars show their numbers.' +
           (unseen ? ' Clients that never train are not included.' : '')),
      labels.length > 1 ? hurtPart(group, view, labels) : null,
      clientTable(clients, labels));
}

/** Returns [client, seed, value] of a label's clients that train. */
function valuesOfLabel(clients, label) {
  return clients.runs.filter(run => run.label === label).flatMap(run => {
    const unseen = new Set(clients.seeds[run.seed].unseen);
    return run.values.map((value, client) => [client, run.seed, value]).filter(
        ([client, , value]) => isNumber(value) && !unseen.has(client));
  });
}

function stripOf(group, label) {
  const found = valuesOfLabel(group.clients, label);
  const average = mean(found.map(([, , value]) => value));
  return {
    label, color: color(numberOf(group, label)), mean: average,
    note: average === null ? '' : `mean ${plain(average)}`,
    points: found.map(([client, seed, value]) => ({
      value, text: `${nameOf(group.clients, client, seed)}: ${plain(value)}`,
    })),
  };
}

function numberOf(group, label) {
  return group.curves.findIndex(curve => curve.label === label);
}

/** Returns the name of a client, with the seed if there are several. */
function nameOf(clients, client, seed) {
  const seeds = Object.keys(clients.seeds);
  return `client ${clients.names[client]}` +
      (seeds.length > 1 ? `, seed ${seed}` : '');
}

/**
 * Returns [client, seed, difference] of the clients that both labels have with
 * the same seed; a difference below zero is a client that is worse off.
 */
function differencesOf(clients, label, reference) {
  const key = (client, seed) => `${client}/${seed}`;
  const known = new Map(valuesOfLabel(clients, reference).map(
      ([client, seed, value]) => [key(client, seed), value]));
  const sign = clients.isHigherBetter ? 1 : -1;
  return valuesOfLabel(clients, label)
      .filter(([client, seed]) => known.has(key(client, seed)))
      .map(([client, seed, value]) => [
        client, seed, sign * (value - known.get(key(client, seed)))]);
}

function hurtPart(group, view, labels) {
  const preferred = ['local_only', 'fedavg'];
  let reference =
      preferred.find(label => labels.includes(label)) || labels[0];
  const {metric, isHigherBetter} = group.clients;
  const named = metric[0].toUpperCase() + metric.slice(1);
  const lanes = laneFigure(
      () => labels.filter(
          label => label !== reference && !view.hidden.has(label)).map(
          label => hurtLane(group, label, reference)), {
        zero: true,
        title: () => `${named} ${isHigherBetter ? 'above' : 'below'} that of` +
            ` ${reference}`,
      });
  view.watchers.push(lanes.redraw);
  return make(
      'div', {class: 'hurt'}, make('h4', {}, 'Who is hurt'),
      make('div', {class: 'controls'}, menu(
          'Compared with', labels.map(label => [label, label]), reference,
          label => {
            reference = label;
            lanes.redraw();
          })),
      lanes,
      make('p', {class: 'note'},
           'Each client is compared to itself with the same seed; left of the' +
           ' line it is worse off.'));
}

function hurtLane(group, label, reference) {
  const found = differencesOf(group.clients, label, reference);
  const hurt = found.filter(([, , value]) => value < 0).length;
  const worst = found.reduce(
      (least, one) => !least || one[2] < least[2] ? one : least, null);
  const average = mean(found.map(([, , value]) => value));
  return {
    label, color: color(numberOf(group, label)), mean: average,
    note: !found.length ? 'no client in common' :
        `${short(100 * hurt / found.length, 3)} % hurt, mean ` +
        signed(average) + (worst[2] < 0 ? `, worst ${signed(worst[2])}` +
            ` (client ${group.clients.names[worst[0]]})` : ''),
    points: found.map(([client, seed, value]) => ({
      value, color: value < 0 ? HURT : value > 0 ? HELPED : EVEN,
      text: `${nameOf(group.clients, client, seed)}: ${signed(value)}`,
    })),
  };
}

function signed(value) {
  return `${value < 0 ? '−' : '+'}${plain(Math.abs(value))}`;
}

/** Returns a table of all clients, a column per method; means over seeds. */
function clientTable(clients, labels) {
  const columns = [
    {name: 'client', title: 'Client', style: 'text'},
    {name: 'num_test', title: 'Test examples', style: 'integer',
     hint: 'Mean over seeds.'},
    {name: 'trains', title: 'Trains', style: 'text'},
    ...labels.map(label => ({name: label, title: label, style: 'number'})),
  ];
  const seeds = Object.values(clients.seeds);
  const average = values => mean(values.filter(isNumber));
  const rows = clients.names.map((name, client) => [
    name, average(seeds.map(seed => seed.num_test[client])),
    seeds.every(seed => seed.unseen.includes(client)) ? 'never' :
        seeds.some(seed => seed.unseen.includes(client)) ? 'some seeds' : 'yes',
    ...labels.map(label => average(clients.runs
        .filter(run => run.label === label)
        .map(run => run.values[client]))),
  ]);
  const keep = rows.some(row => row[2] !== 'yes') ? null : 2;
  const without = list => list.filter((_, index) => index !== keep);
  return make(
      'details', {}, make('summary', {}, `Table of ${rows.length} clients`),
      tableOf({columns: without(columns), rows: rows.map(without)}, {
        caption: `Test ${clients.metric} of each client, mean over seeds`,
      }));
}
