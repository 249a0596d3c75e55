function groupBy(items, key) {
  throw new Error("not implemented");
}

module.exports = { groupBy };
