const assert = require("assert");
const { deepEqual } = require("./equal.js");

assert.ok(deepEqual({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }));
assert.ok(!deepEqual({ a: 1 }, { a: 1, b: 2 }));
assert.ok(!deepEqual(null, {}));
console.log("ok");
