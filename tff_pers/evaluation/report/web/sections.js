// The other sections of the page.

/** Returns the section of findings, null without any. */
function findingSection(findings) {
  if (!findings.length) return null;
  return make(
      'section', {class: 'findings', 'aria-label': 'Warnings'},
      make('h2', {}, 'Warnings'),
      ...findings.map(({text, items}) => make(
          'details', {open: items.length <= 3},
          make('summary', {}, text),
          make('ul', {}, ...items.map(item => make('li', {}, item))))));
}

/** Returns the section of a table that another program wrote. */
function folderSection(section, groups) {
  const isChoice = section.kind === 'choice';
  const recommended = section.recommended || [];
  const mark = row => recommended.includes(row[0]);
  return make(
      'section', {},
      make('h2', {}, section.title,
           make('small', {}, ` ${section.place}`)),
      isChoice && recommended.length ?
          make('p', {class: 'lead'}, 'Recommended: ',
               make('strong', {}, recommended.join(', ')), '.') : null,
      ...(section.sentences || []).map(text => make('p', {}, ...coded(text))),
      isChoice ? intervalFigure(
          section, `Test ${section.metric}, with 95 % interval`, groups) : null,
      tableOf(section.table, {
        caption: section.title, isNamed: true, marked: mark,
        sortBy: isChoice ? 'value_validation' : null,
        isDescending: isChoice && section.isHigherBetter,
      }),
      (section.notes || []).length ? make(
          'details', {open: true}, make('summary', {}, 'How to read this'),
          make('ul', {}, ...section.notes.map(
              text => make('li', {}, ...coded(text))))) : null);
}

/** Returns a text whose parts between backticks are code. */
function coded(text) {
  return text.split('`').map(
      (part, i) => i % 2 ? make('code', {}, part) : part);
}

/** Returns a method's colour in the first group that has it. */
function colorIn(groups, label) {
  const group = groups.find(group => numberOf(group, label) >= 0);
  return group ? color(numberOf(group, label)) : 'var(--soft)';
}

/** Returns a figure of a value with a range for each of `section.rows`. */
function intervalFigure(section, title, groups) {
  // The rows of a choice are in the order of its table, by validation data.
  const rows = section.kind === 'choice' ? section.rows : sortedRows(
      section.rows.map(row => [row.value, row]), 0,
      section.isHigherBetter).map(([, row]) => row);
  const known = groups.map(group => group.final.baseline).filter(isNumber);
  return laneFigure(() => rows.map(row => {
    const range = row.low < row.high ?
        ` (${plain(row.low)} to ${plain(row.high)})` : '';
    return {
      label: row.label, bar: [row.low, row.high],
      color: colorIn(groups, row.label),
      note: plain(row.value) + range,
      points: [{
        value: row.value, text: `${row.label}: ${plain(row.value)}${range}`}],
    };
  }), {
    title: () => title, height: 20,
    baseline: section.metric === 'accuracy' ? mean(known) : null,
  });
}

/** Returns the buttons that show and hide methods. */
function legend(group, view) {
  const buttons = group.curves.map((curve, number) => {
    const sample = canvas(26, 10, '');
    sample.append(draw('line', {
      x1: 1, x2: 25, y1: 5, y2: 5, stroke: color(number), class: 'line',
      'stroke-dasharray': dashes(number) || null}));
    return make('button', {
      type: 'button', onclick: () => {
        if (!view.hidden.delete(curve.label)) view.hidden.add(curve.label);
        update();
      }}, sample, curve.label);
  });
  const all = isShown => make('button', {
    type: 'button', class: 'quiet', onclick: () => {
      view.hidden = new Set(
          isShown ? [] : group.curves.map(curve => curve.label));
      update();
    }}, isShown ? 'show all' : 'hide all');
  function update() {
    buttons.forEach((button, index) => button.setAttribute(
        'aria-pressed',
        String(!view.hidden.has(group.curves[index].label))));
    count.textContent = view.hidden.size ?
        `${buttons.length - view.hidden.size} of ${buttons.length} are shown` :
        '';
    view.watchers.forEach(watcher => watcher());
  }
  const count = make('span', {class: 'note'});
  update();
  return make(
      'div', {class: 'legend', role: 'group', 'aria-label': 'Methods shown'},
      ...buttons, ...(buttons.length > 3 ? [all(true), all(false)] : []),
      count);
}

/** Returns methods that are initially hidden: diverged, or too many. */
function firstView(group) {
  const best = sortedRows(
      group.final.rows.map(row => [row.value, row.label]), 0,
      group.final.isHigherBetter).map(([, label]) => label);
  const all = group.curves.map(curve => curve.label);
  const shown = best.length ? best.slice(0, FIRST_SHOWN) : all;
  return {
    hidden: new Set(all.filter(label => !shown.includes(label))), watchers: [],
  };
}

function resultSection(group) {
  const {metric, rows} = group.final;
  const several = rows.some(row => row.low < row.high);
  return make(
      'section', {}, make('h3', {}, 'Results'),
      tableOf(group.results, {
        caption: 'Means over clients and seeds, last evaluated round',
        sortBy: `${metric}_mean`, isDescending: group.final.isHigherBetter,
        colors: row => color(numberOf(group, row[0])),
      }),
      rows.length > 1 ? intervalFigure(
          group.final, `Test ${metric}` +
          (several ? ', mean and range over seeds' : ''), [group]) : null,
      ...group.confusion.map(({label, table}) => folded(
          `Test rows by class and predicted class: ${label}`, table)));
}

/** Returns a foldable table, null if it has no rows. */
function folded(title, table, options = {}) {
  if (!table.rows.length) return null;
  return make(
      'details', {open: Boolean(options.open)}, make('summary', {}, title),
      tableOf(table, {caption: title, isNamed: true, ...options}));
}

function costSection(group) {
  return make(
      'section', {}, make('h3', {}, 'Cost'),
      tableOf(group.costs, {
        caption: 'Of a client and of a run, means over seeds',
        colors: row => color(numberOf(group, row[0])),
      }),
      folded('Models of capacity tiers', group.tiers),
      folded('The global model after local steps', group.finetuning));
}

function settingSection(group) {
  const {differing, given, own, common} = group.settings;
  return make(
      'section', {}, make('h3', {}, 'Configuration'),
      differing.rows.length ?
          tableOf(differing, {caption: 'Flags that differ between methods'}) :
          make('p', {class: 'note'},
               'All runs have the same flags, but for the method and seed.'),
      folded(differing.rows.length ? 'Other flags that were given' :
          'Flags that were given', given, {open: true}),
      folded('Flags of methods at their defaults', own),
      folded('Flags of all runs at their defaults', common));
}

function groupPart(group, index, isAlone) {
  const view = firstView(group);
  return make(
      'article', {id: `group${index}`},
      make('h2', {}, group.name),
      make('p', {class: 'lead'}, group.summary),
      group.results.rows.length ? resultSection(group) : null,
      legend(group, view), curveSection(group, view),
      clientSection(group, view), mapSection(group),
      group.costs.rows.length ? costSection(group) : null,
      settingSection(group),
      folded('Runs', group.runs, {open: isAlone && group.runs.rows.length < 13}));
}
