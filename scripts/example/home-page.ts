/** The page at `/`, which lists what to try. */
export const HOME_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Example app</title>
<style>
  :root { color-scheme: light dark }
  body { font: 1rem/1.6 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem }
  code { background: #8882; padding: .1em .3em; border-radius: 3px }
</style>
<h1>Example app</h1>
<p>Every request here is limited and logged by fastify-smart-ratelimit.</p>
<ul>
  <li><a href="/api/items"><code>GET /api/items</code></a>: 100 per minute, the default</li>
  <li><code>POST /api/items</code>: 20 per minute, by the rule <code>api-writes</code> in the database</li>
  <li><code>POST /auth/login</code>: 5 per minute, by the path prefix <code>/auth/</code></li>
</ul>
<p><a href="/ratelimit/dashboard/">The staff dashboard</a> and <a href="/ratelimit/admin">the admin panel</a> ask for the password that the first start printed.</p>
</html>
`
