const assert = require("assert");
const { groupBy } = require("./group.js");

const grouped = groupBy([{ k: "a", n: 1 }, { k: "b", n: 2 }, { k: "a", n: 3 }], "k");
assert.deepStrictEqual(grouped.a, [{ k: "a", n: 1 }, { k: "a", n: 3 }]);
assert.deepStrictEqual(Object.keys(grouped), ["a", "b"]);
console.log("ok");
