function sortiere(namen) {
  return [...namen].sort((a, b) => a.toLowerCase().localeCompare(b.toLowerCase()));
}

module.exports = { sortiere };
