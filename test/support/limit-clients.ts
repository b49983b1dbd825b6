import { createClient } from '../../src/clients/client.js'
import { countClient, type LimitClient } from '../../src/clients/limit-client.js'

/** Returns a client of one part, such as `header:x-api-key` with a value, as the default limit counts it. */
export function counted(name: string, value: string): LimitClient {
  return countClient(createClient({ name, value }))
}
