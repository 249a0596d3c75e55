const path = require("path");
const assert = require("assert");
const load = (name) => require(path.join(process.cwd(), name));
const { deepEqual } = load("equal.js");
const yes = [[1, 1], ["a", "a"], [null, null], [undefined, undefined], [[], []], [{}, {}], [{ a: 1, b: 2 }, { b: 2, a: 1 }], [[1, [2, [3]]], [1, [2, [3]]]]];
const no = [[1, "1"], [null, undefined], [null, {}], [{}, null], [[], {}], [{}, []], [[1, 2], [2, 1]], [[1], [1, 2]], [{ a: 1 }, { a: 2 }], [{ a: undefined }, { b: undefined }], [{ a: 1, b: 2 }, { a: 1 }], [0, false]];
for (const [a, b] of yes) assert.ok(deepEqual(a, b) === true, JSON.stringify([a, b]));
for (const [a, b] of no) assert.ok(deepEqual(a, b) === false, JSON.stringify([a, b]));
