// Keeps the files of the page, so that an installed app opens without the server and says that it is away.
// Nothing of the API is ever kept.
const CACHE = 'mainspring-page';
const isPage = (url) => url.origin === self.location.origin && (url.pathname === '/' || url.pathname.startsWith('/page/'));

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('fetch', (event) => {
  if (event.request.method !== 'GET' || !isPage(new URL(event.request.url))) return;
  event.respondWith((async () => {
    const cache = await caches.open(CACHE);
    try {
      const answer = await fetch(event.request);
      if (answer.ok) await cache.put(event.request, answer.clone());
      return answer;
    } catch (problem) {
      const kept = await cache.match(event.request);
      if (kept) return kept;
      throw problem;
    }
  })());
});
