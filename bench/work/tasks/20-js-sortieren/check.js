const path = require("path");
const assert = require("assert");
const load = (name) => require(path.join(process.cwd(), name));
const { sortiere } = load("namen.js");
const namen = ["berta", "Anton", "Carl"];
assert.deepStrictEqual(sortiere(namen), ["Anton", "berta", "Carl"]);
assert.deepStrictEqual(namen, ["berta", "Anton", "Carl"]);
assert.deepStrictEqual(sortiere(["b", "A", "a", "C"]).map((name) => name.toLowerCase()), ["a", "a", "b", "c"]);
assert.deepStrictEqual(sortiere([]), []);
