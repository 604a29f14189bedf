// Maps of mixing weights, routers, and classes of clients.

const VIRIDIS = [
  [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141],
  [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const STEPS = 65534;
const MAP_TITLES = {
  mixing: ['Who learns from whom', 'Mixing weight'],
  router: ['Who uses what', 'Weight'],
  data: ['Who has which classes', 'Training examples'],
};

/** Returns the maps of one run, and a menu of the runs; null without any. */
function mapSection(group) {
  if (!group.maps.length) return null;
  const names = [...new Set(group.maps.map(mapRun))];
  const learned = group.maps.find(map => map.kind !== 'data');
  const panels = make('div', {class: 'panels'});
  const note = make('p', {class: 'note'});
  const show = name => {
    const maps = group.maps.filter(map => mapRun(map) === name);
    panels.replaceChildren(...maps.map(mapFigure));
    note.textContent = [...mapNotes(maps), group.maps_left_out]
        .filter(Boolean).join(' ');
  };
  const first = mapRun(learned || group.maps[0]);
  show(first);
  return make(
      'section', {}, make('h3', {}, 'Maps'),
      make('div', {class: 'controls'}, menu(
          'Run', names.map(name => [name, name]), first, show)),
      panels, note);
}

function mapRun(map) {
  return `${map.label}, seed ${map.seed}`;
}

function mapNotes(maps) {
  const sides = maps.flatMap(map => [map.rows, map.columns]);
  const large = sides.find(side => side.block > 1);
  return [
    sides.some(side => side.ordered) ?
        'Clients are ordered by their true group.' : '',
    large ? `For ${large.number} clients, ${large.block} neighbours each are ` +
        'averaged into one cell.' : '',
  ];
}

/** Returns the values of a map, row by row; null for unknown ones. */
function decoded(map) {
  const bytes = atob(map.cells);
  const values = [];
  for (let i = 0; i < bytes.length; i += 2) {
    const step = bytes.charCodeAt(i) + 256 * bytes.charCodeAt(i + 1);
    values.push(step > STEPS ? null : step / STEPS * map.largest);
  }
  return values;
}

/** Returns the colour of a share in [0, 1]: [red, green, blue]. */
function viridis(share) {
  const place = share * (VIRIDIS.length - 1);
  const index = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return VIRIDIS[index].map((start, channel) => Math.round(
      start + (place - index) * (VIRIDIS[index + 1][channel] - start)));
}

function mapFigure(map) {
  const values = decoded(map);
  const image = pictureOf(map, values);
  const made = figure(width => mapChart(map, values, image, width));
  made.prepend(make(
      'div', {class: 'panel-head'},
      make('h4', {}, MAP_TITLES[map.kind][0])));
  return made;
}

/** Returns the cells as an image, one pixel per cell. */
function pictureOf(map, values) {
  const paper = document.createElement('canvas');
  paper.width = map.columns.names.length;
  paper.height = map.rows.names.length;
  const context = paper.getContext('2d');
  const pixels = context.createImageData(paper.width, paper.height);
  values.forEach((value, index) => {
    const [red, green, blue] =
        value === null ? [128, 128, 128] : viridis(value / map.largest);
    pixels.data.set([red, green, blue, 255], 4 * index);
  });
  context.putImageData(pixels, 0, 0);
  return paper.toDataURL();
}

function mapChart(map, values, image, width) {
  const [rows, columns] = [map.rows.names.length, map.columns.names.length];
  const left = 28 + 7 * longest(map.rows);
  const wide = Math.min(width - left - 76, Math.max(columns * 34, 120), 460);
  const tall = rows === columns ? wide :
      Math.max(120, Math.min(460, rows * 14));
  const top = 6, height = top + tall + 44;
  const svg = canvas(width, height,
                     `${MAP_TITLES[map.kind][0]}: ${rows} by ${columns}`);
  svg.append(draw('image', {
    href: image, x: left, y: top, width: wide, height: tall,
    preserveAspectRatio: 'none', class: 'cells'}));
  const cell = {x: wide / columns, y: tall / rows};
  drawEdges(svg, map, left, top, wide, tall, cell);
  drawSides(svg, map, left, top, wide, tall, cell);
  drawBarOf(svg, map, left + wide + 12, top, tall);
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const zoom = width / box.width;
    const column = Math.floor(
        ((event.clientX - box.left) * zoom - left) / cell.x);
    const row = Math.floor(((event.clientY - box.top) * zoom - top) / cell.y);
    if (row < 0 || row >= rows || column < 0 || column >= columns) {
      hideTip();
      return;
    }
    const value = values[row * columns + column];
    showTip(event.clientX, event.clientY, [
      [`${map.rows.title} ${map.rows.names[row]}`, null],
      [`${map.columns.title} ${map.columns.names[column]}`, null],
      [`${MAP_TITLES[map.kind][1]}: ` +
          (value === null ? 'not known' : plain(value)), null],
    ]);
  });
  svg.addEventListener('pointerleave', hideTip);
  return svg;
}

/** Draws the lines between groups. */
function drawEdges(svg, map, left, top, wide, tall, cell) {
  for (const edge of map.columns.edges) {
    const x = left + edge * cell.x;
    svg.append(draw('line', {
      class: 'edge', x1: x, x2: x, y1: top, y2: top + tall}));
  }
  for (const edge of map.rows.edges) {
    const y = top + edge * cell.y;
    svg.append(draw('line', {
      class: 'edge', x1: left, x2: left + wide, y1: y, y2: y}));
  }
}

/** Draws names of some rows and columns, and axis titles. */
function drawSides(svg, map, left, top, wide, tall, cell) {
  const every = (number, room) => Math.ceil(number / Math.max(1, room));
  const {rows, columns} = map;
  const down = every(rows.names.length, tall / 15);
  const across = every(
      columns.names.length, wide / (7 * longest(map.columns) + 6));
  rows.names.forEach((name, index) => {
    if (index % down) return;
    svg.append(draw('text', {
      class: 'tick', x: left - 5, y: top + (index + 0.5) * cell.y + 4,
      'text-anchor': 'end'}, shortened(name, rows)));
  });
  columns.names.forEach((name, index) => {
    if (index % across) return;
    svg.append(draw('text', {
      class: 'tick', x: left + (index + 0.5) * cell.x, y: top + tall + 14,
      'text-anchor': 'middle'}, shortened(name, columns)));
  });
  const middle = top + tall / 2;
  svg.append(
      draw('text', {class: 'axis-title', x: left + wide / 2,
                    y: top + tall + 34, 'text-anchor': 'middle'},
           columns.title),
      draw('text', {class: 'axis-title', 'text-anchor': 'middle',
                    transform: `translate(12 ${middle}) rotate(-90)`},
           rows.title));
}

/** Returns a name that fits on an axis; for averaged neighbours the first. */
function shortened(whole, side) {
  const name = side.block > 1 ? whole.split(' … ')[0] : whole;
  return name.length > 14 ? `${name.slice(0, 13)}…` : name;
}

function longest(side) {
  return Math.max(...side.names.map(name => shortened(name, side).length));
}

/** Draws the colour legend. */
function drawBarOf(svg, map, x, top, tall) {
  const parts = 32, height = Math.min(tall, 160) / parts;
  for (let part = 0; part < parts; part++) {
    const share = 1 - (part + 0.5) / parts;
    svg.append(draw('rect', {
      x, width: 10, y: top + part * height, height: height + 0.5,
      fill: `rgb(${viridis(share).join(',')})`}));
  }
  svg.append(
      draw('text', {class: 'tick', x: x + 14, y: top + 9},
           short(map.largest, 3)),
      draw('text', {class: 'tick', x: x + 14, y: top + parts * height}, '0'));
}
