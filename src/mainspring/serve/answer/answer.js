// The code stands behind `#`, which is never sent by itself: what fetches the address learns nothing and
// changes nothing. Everything that others wrote is set as text.
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
/** @param {string} id */
const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @param {string} path @param {object} body */
async function post(path, body) {
  const answer = await fetch(`/api/v1/link${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code, ...body }),
  });
  const value = await answer.json();
  if (!answer.ok) throw new Error([value.error.message, value.error.remedy].filter(Boolean).join(" "));
  return value;
}

/** @param {unknown} error */
function fail(error) {
  part("said").textContent = error instanceof Error ? error.message : String(error);
  part("form").hidden = true;
}

/** @param {Event} event */
async function answer(event) {
  const decision = /** @type {HTMLButtonElement} */ (event.currentTarget).value;
  const feedback = /** @type {HTMLTextAreaElement} */ (part("feedback")).value;
  part("form").hidden = true;
  part("said").textContent = "Sending …";
  try {
    await post("/answer", { decision, feedback });
    part("said").textContent = decision === "allow" ? "Allowed. You can close this page." : "Rejected. You can close this page.";
  } catch (error) {
    fail(error);
  }
}

for (const id of ["allow", "reject"]) part(id).addEventListener("click", answer);
try {
  const found = await post("", {});
  part("title").textContent = `${found.title} asks`;
  part("said").textContent = `Session ${found.session}`;
  part("question").textContent = found.text;
  part("question").hidden = part("form").hidden = false;
  if (found.is_question) part("allow").textContent = "Send the answer";
} catch (error) {
  fail(error);
}
