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

const KEY = 'mainspring-key';
const SILENCE_MS = 40000;
const OPENS_WITHIN_MS = 8000; // a connection that died unnoticed does not answer, and is not used again once it was given up
const RETRY_MS = 1000;

/** Browsers send cookies to every port of a machine; what this page keeps for itself they do not. */
const headers = () => ({ 'x-mainspring-key': localStorage.getItem(KEY) || '' });

/** @param {string} path @param {RequestInit} [options] @returns {Promise<Response>} */
async function ask(path, options = {}) {
  const answer = await fetch(API + path, { credentials: 'same-origin', ...options, headers: { ...headers(), ...options.headers } });
  if (answer.ok) return answer;
  const { error } = await answer.json();
  throw new ApiError(answer.status, error.message, error.remedy);
}

/** @param {string} path @returns {Promise<any>} */
export const get = async (path) => (await ask(path)).json();
/** @param {string} path @param {object} [body] @returns {Promise<any>} */
export const post = async (path, body = {}) => (await ask(path,
  { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })).json();

/** @param {string} path @param {object} body */
export async function enterBy(path, body) {
  const { key } = await post(path, body);
  localStorage.setItem(KEY, key);
}

/** A file for the person. @param {string} path @param {string} name */
export async function download(path, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await (await ask(path)).blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** The address of a picture that is shown. @param {string} path @param {string} type */
export async function picture(path, type) {
  return URL.createObjectURL(new Blob([await (await ask(path)).arrayBuffer()], { type }));
}

/** One frame of a stream. @param {string} frame @param {Record<string, (data: any) => void>} on */
function tell(frame, on) {
  let name = 'message';
  let data = '';
  for (const line of frame.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) data = line.slice(6);
  }
  if (data && on[name]) on[name](JSON.parse(data));
}

/**
 * Follows a stream until the function that it gives is called. A stream that breaks, or is silent for too long as
 * after sleep, is taken up again at once, from where `path` says, so there is neither a gap nor a double.
 * @param {() => string} path @param {Record<string, (data: any) => void>} on @param {(isOpen: boolean) => void} onState
 */
export function follow(path, on, onState) {
  let isOver = false;
  let abort = new AbortController();
  let heard = Date.now();
  let isOpen = false;
  const read = async () => {
    const answer = await ask(path(), { signal: abort.signal });
    const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
    const decoder = new TextDecoder();
    let rest = '';
    isOpen = true;
    onState(true);
    for (;;) {
      const { done, value } = await reader.read();
      if (done || isOver) return;
      heard = Date.now();
      const frames = (rest + decoder.decode(value, { stream: true })).split('\n\n');
      rest = frames.pop() || '';
      for (const frame of frames) tell(frame, on);
    }
  };
  const open = async () => {
    while (!isOver) {
      heard = Date.now();
      isOpen = false;
      abort = new AbortController();
      try {
        await read();
      } catch (problem) {
        if (problem instanceof ApiError && problem.status === 401) location.reload(); // revoked: the entrance says what to do
        if (problem instanceof ApiError && problem.status === 404) { isOver = true; clearInterval(timer); } // deleted: there is nothing to wait for
      }
      if (isOver) return;
      onState(false);
      await new Promise((resume) => { setTimeout(resume, RETRY_MS); });
    }
  };
  const look = () => { if (Date.now() - heard > (isOpen ? SILENCE_MS : OPENS_WITHIN_MS)) abort.abort(); };
  const timer = setInterval(look, 2000);
  document.addEventListener('visibilitychange', look);
  open();
  return () => {
    isOver = true;
    clearInterval(timer);
    document.removeEventListener('visibilitychange', look);
    abort.abort();
  };
}
