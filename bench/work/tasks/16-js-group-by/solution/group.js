function groupBy(items, key) {
  const groups = {};
  for (const item of items) {
    if (!(key in item)) continue;
    (groups[item[key]] ??= []).push(item);
  }
  return groups;
}

module.exports = { groupBy };
