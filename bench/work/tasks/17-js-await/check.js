const path = require("path");
const assert = require("assert");
const load = (name) => require(path.join(process.cwd(), name));
const { loadAll } = load("load.js");
const slow = (name) => new Promise((done) => setTimeout(() => done(name + "!"), name === "a" ? 20 : 1));
(async () => {
  assert.deepStrictEqual(await loadAll(["a", "b", "c"], slow), ["a!", "b!", "c!"]);
  assert.deepStrictEqual(await loadAll([], slow), []);
  await assert.rejects(loadAll(["x"], async () => { throw new Error("no"); }));
})().catch((error) => { console.error(error.message); process.exit(1); });
