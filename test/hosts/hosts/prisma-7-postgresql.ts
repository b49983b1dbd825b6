import type { Host } from '../host.js'
import { prismaHost } from '../prisma.js'

export const host: Host = prismaHost({
  version: 7,
  provider: 'postgresql',
  adapter: { name: 'PrismaPg', module: '@prisma/adapter-pg', options: '{ connectionString: url }' },
})
