import type { Host } from '../host.js'
import { prismaHost } from '../prisma.js'

export const host: Host = prismaHost({
  version: 7,
  provider: 'sqlite',
  adapter: { name: 'PrismaLibSql', module: '@prisma/adapter-libsql', options: '{ url }' },
})
