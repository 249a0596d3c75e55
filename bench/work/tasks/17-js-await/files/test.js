const assert = require("assert");
const { loadAll } = require("./load.js");

const loadPage = async (name) => `text of ${name}`;
loadAll(["a", "b"], loadPage)
  .then((texts) => assert.deepStrictEqual(texts, ["text of a", "text of b"]))
  .then(() => console.log("ok"));
