const path = require("path");
const assert = require("assert");
const load = (name) => require(path.join(process.cwd(), name));
const { sum } = load("sum.js");
assert.strictEqual(sum(["1", "2"]), 3);
assert.strictEqual(sum([1, "2.5", 3]), 6.5);
assert.strictEqual(sum([]), 0);
