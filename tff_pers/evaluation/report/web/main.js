// Assembles the page.

function start() {
  const data = JSON.parse(document.getElementById('data').textContent);
  const isAlone = data.groups.length === 1;
  const links = isAlone ? [] : data.groups.map((group, index) => make(
      'a', {href: `#group${index}`}, group.name));
  document.getElementById('page').append(...[
    make('header', {}, make('h1', {}, data.title)),
    findingSection(data.findings),
    ...data.tables.map(section => folderSection(section, data.groups)),
    links.length ? make('nav', {'aria-label': 'Data'}, ...links) : null,
    ...data.groups.map((group, index) => groupPart(group, index, isAlone)),
    data.versions.rows.length ? make(
        'section', {}, make('h2', {}, 'Versions'),
        tableOf(data.versions, {caption: 'Versions of packages'})) :
        null,
    tip,
  ].filter(Boolean));
  for (const drawn of document.querySelectorAll('figure')) drawn.fit();
}

// Folded parts are printed too.
window.addEventListener('beforeprint', () => {
  for (const fold of document.querySelectorAll('details')) fold.open = true;
});

start();
