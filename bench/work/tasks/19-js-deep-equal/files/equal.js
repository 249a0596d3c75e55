function deepEqual(a, b) {
  return a === b;
}

module.exports = { deepEqual };
