import type { FastifyInstance } from 'fastify'

interface Item {
  readonly id: number
  readonly name: string
}

/** The most items that the example keeps in memory. */
const MAX_ITEMS = 100

/** Adds the routes of an app, none of which mentions rate limits. */
export async function apiRoutes(app: FastifyInstance): Promise<void> {
  const items: Item[] = [{ id: 1, name: 'a first item' }]
  let lastId = 1

  app.get('/api/items', async () => items)

  app.post<{ Body: { name: string } }>('/api/items', { schema: { body: ITEM_BODY } }, async (request, reply) => {
    const item = { id: ++lastId, name: request.body.name }
    items.push(item)
    if (items.length > MAX_ITEMS) items.shift()
    return reply.code(201).send(item)
  })

  app.get<{ Params: { id: number } }>('/api/items/:id', { schema: { params: ITEM_PARAMS } }, async (request, reply) => {
    const item = items.find(({ id }) => id === request.params.id)
    return item ?? reply.callNotFound()
  })

  // Every login fails, to show how guessing passwords is limited.
  app.post('/auth/login', { schema: { body: LOGIN_BODY } }, async (_request, reply) =>
    reply.code(401).send({ statusCode: 401, error: 'Unauthorized', message: 'Wrong name or password' }),
  )
}

const ITEM_BODY = {
  type: 'object',
  required: ['name'],
  properties: { name: { type: 'string', minLength: 1, maxLength: 100 } },
}
const ITEM_PARAMS = { type: 'object', properties: { id: { type: 'integer' } } }
const LOGIN_BODY = {
  type: 'object',
  required: ['name', 'password'],
  properties: { name: { type: 'string' }, password: { type: 'string' } },
}
