const path = require("path");
const assert = require("assert");
const load = (name) => require(path.join(process.cwd(), name));
const { groupBy } = load("group.js");
assert.deepEqual(groupBy([], "k"), {});
assert.deepEqual(groupBy([{ a: 1 }], "k"), {});
assert.deepEqual(groupBy([{ k: "x" }, { a: 1 }, { k: "x", b: 2 }], "k"), { x: [{ k: "x" }, { k: "x", b: 2 }] });
assert.deepEqual(groupBy([{ k: 0 }, { k: 1 }], "k"), { 0: [{ k: 0 }], 1: [{ k: 1 }] });
