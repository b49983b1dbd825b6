import { PrismaBetterSQLite3 } from '@prisma/adapter-better-sqlite3'
import { defineConfig } from 'prisma/config'

// With an adapter the Prisma CLI downloads no engine, so that a build works in a closed network.
export default defineConfig({
  experimental: { adapter: true },
  engine: 'js',
  adapter: async () => new PrismaBetterSQLite3({ url: ':memory:' }, { timestampFormat: 'unixepoch-ms' }),
})
