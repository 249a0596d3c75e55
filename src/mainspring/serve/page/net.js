// Requests and streams. Every answer is JSON; an error is a sentence and what to do.
export const API = '/api/v1';

export class ApiError extends Error {
  /** @param {number} status @param {string} message @param {string} remedy */
  constructor(status, message, remedy) {
    super(message);
    this.status = status;
    this.remedy = remedy;
  }
}

/** @param {string} method @param {string} path @param {object} [body] @returns {Promise<any>} */
async function request(method, path, body) {
  /** @type {RequestInit} */
  const options = { method, credentials: 'same-origin' };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { 'content-type': 'application/json' };
  }
  const answer = await fetch(API + path, options);
  const data = await answer.json();
  if (!answer.ok) throw new ApiError(answer.status, data.error.message, data.error.remedy);
  return data;
}

/** @param {string} path */
export const get = (path) => request('GET', path);
/** @param {string} path @param {object} [body] */
export const post = (path, body = {}) => request('POST', path, body);

/**
 * Follows a stream until the function that it gives is called. The browser takes a broken stream up again with
 * the number of the last event, so there is neither a gap nor a double.
 * @param {() => string} path @param {Record<string, (data: any) => void>} on @param {(isOpen: boolean) => void} onState
 */
export function follow(path, on, onState) {
  /** @type {EventSource | null} */
  let source = null;
  let isOver = false;
  /** @type {number | undefined} */
  let timer;
  const open = () => {
    if (isOver) return;
    source = new EventSource(API + path());
    source.onopen = () => onState(true);
    source.onerror = () => {
      onState(false);
      if (source && source.readyState === EventSource.CLOSED) {
        timer = setTimeout(open, 2000);
      }
    };
    for (const [name, handle] of Object.entries(on)) {
      source.addEventListener(name, (event) => handle(JSON.parse(/** @type {MessageEvent} */ (event).data)));
    }
  };
  open();
  return () => {
    isOver = true;
    clearTimeout(timer);
    if (source) source.close();
  };
}
