/** The types of `fastify-smart-ratelimit/admin`, as a host sees them that has installed AdminJS. */
import { type AdminJSOptions, ComponentLoader } from 'adminjs'
import Fastify from 'fastify'
import { rateLimitPlugin } from 'fastify-smart-ratelimit'
import { type AdminResource, adminPlugin, createAdminResources } from 'fastify-smart-ratelimit/admin'
import { staffAccounts } from 'fastify-smart-ratelimit/dashboard'
import { expectType } from './expect-type.mjs'

const app = Fastify()
await app.register(rateLimitPlugin)
const staff = staffAccounts({ accounts: { alice: '$scrypt$…' }, sessionSecret: 'x'.repeat(32) })
await app.register(adminPlugin, { rootPath: '/ops/admin', staff })
await app.register(adminPlugin, { isStaff: () => true, actor: async (request) => request.ip })
// @ts-expect-error an option that does not exist
await app.register(adminPlugin, { accounts: staff })

const componentLoader = new ComponentLoader()
const resources = await createAdminResources(app, componentLoader)
expectType<AdminResource[]>()(resources)
export const options: AdminJSOptions = { resources, componentLoader }

const http2 = Fastify({ http2: true })
await http2.register(adminPlugin, { isStaff: () => true })
expectType<Promise<AdminResource[]>>()(createAdminResources(http2, componentLoader))
