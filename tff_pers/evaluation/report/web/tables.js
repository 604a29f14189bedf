// Tables that are sorted by a click on a heading.

const ROWS = 25;
const collator = new Intl.Collator('en', {numeric: true});

/** Whether a cell can be ordered as a number. */
function isNumber(value) {
  return typeof value === 'number';
}

/**
 * Compares two cells: numbers by size, texts by their letters, and what is
 * missing or not finite behind all others, whichever way the table is sorted.
 */
function compareCells(a, b, sign) {
  const rank = value => isNumber(value) ? 0 : value ? 1 : 2;
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  if (isNumber(a)) return sign * (a - b);
  return sign * collator.compare(a || '', b || '');
}

/** Returns the rows sorted by a column; the sort is stable. */
function sortedRows(rows, column, isDescending) {
  const sign = isDescending ? -1 : 1;
  return [...rows].sort((a, b) => compareCells(a[column], b[column], sign));
}

/**
 * Returns a table for `{columns, rows}`.
 *
 * Options: `caption`, and `isNamed` if something beside it says so, too; `sortBy`, a column's name, and `isDescending`; `marked`,
 * a function that says whether a row is; `colors`, the colour of a row's dot.
 */
function tableOf(table, options = {}) {
  const body = make('tbody');
  const state = {
    column: table.columns.findIndex(column => column.name === options.sortBy),
    isDescending: Boolean(options.isDescending), showsAll: false,
  };
  const more = make('button', {
    type: 'button', class: 'more', onclick: () => {
      state.showsAll = true;
      update();
    },
  });
  const heads = table.columns.map((column, index) => headOf(column, () => {
    // The largest numbers come first, because readers look for them.
    const starts = column.style !== 'text';
    state.isDescending =
        state.column === index ? !state.isDescending : starts;
    state.column = index;
    update();
  }));

  function update() {
    const rows = state.column < 0 ? table.rows :
        sortedRows(table.rows, state.column, state.isDescending);
    const shown = state.showsAll ? rows : rows.slice(0, ROWS);
    body.replaceChildren(...shown.map(row => rowOf(row, table, options)));
    heads.forEach((head, index) => {
      const way = state.isDescending ? 'descending' : 'ascending';
      head.setAttribute('aria-sort', index === state.column ? way : 'none');
    });
    more.hidden = shown.length === rows.length;
    more.textContent = `Show all ${grouped(rows.length)} rows`;
  }

  update();
  return make(
      'div', {class: 'table'},
      make(
          'div', {class: 'scroller', tabindex: 0, role: 'region',
                  'aria-label': options.caption || 'Table'},
          make(
              'table', {class: table.columns.length < 4 ? 'slim' : null},
              options.caption ? make(
                  'caption', {class: options.isNamed ? 'unseen' : null},
                  options.caption) : null,
              make('thead', {}, make('tr', {}, ...heads)), body)),
      more);
}

function headOf(column, click) {
  return make(
      'th', {scope: 'col', class: column.style, 'aria-sort': 'none'},
      make(
          'button', {type: 'button', title: column.hint || null,
                     onclick: click},
          column.title || ' '));
}

function rowOf(row, table, options) {
  const isMarked = options.marked && options.marked(row);
  return make('tr', {class: isMarked ? 'marked' : null}, ...row.map(
      (value, index) => {
        const column = table.columns[index];
        const text = written(value, column.style);
        if (index) return make('td', {class: column.style}, text);
        const shade = options.colors && options.colors(row);
        return make(
            'th', {scope: 'row', class: column.style},
            make('span', {class: 'name'},
                 shade ? make('span', {class: 'dot',
                                       style: `background:${shade}`}) : null,
                 text));
      }));
}
