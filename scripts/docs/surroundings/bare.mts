/** The surroundings of samples before they register the plugin: an app. */
import websocket from '@fastify/websocket'
import Fastify from 'fastify'

export const app = Fastify({ pluginTimeout: 60_000 })
await app.register(websocket)
