function sortiere(namen) {
  return namen.sort();
}

module.exports = { sortiere };
