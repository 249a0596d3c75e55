async function loadAll(names, loadPage) {
  const texts = [];
  for (const name of names) {
    const text = loadPage(name);
    texts.push(text);
  }
  return texts;
}

module.exports = { loadAll };
