/** The events of one client or network, which are found by its keys: the log has no index of clients. */
import { MAX_KEY_LENGTH } from '../db/storable.js'
import { CLIENT } from '../events/readings.js'
import { isNetwork } from '../overrides/client-networks.js'
import { keysForClient } from './client-keys.js'
import { filtered, type Parameters } from './filter.js'
import { findFiltered } from './find-filtered.js'
import { readRuleNames } from './rule-names.js'
import { type LogSnapshot, windowFor } from './window.js'

/** Creates the condition that an event is of a window and of a client. */
export type ClientCondition = (parameters: Parameters) => string

/** @param client as the log has it; a network stands for its busiest clients */
export async function clientCondition(snapshot: LogSnapshot, client: string, days: number): Promise<ClientCondition> {
  const { dialect, nowMs } = snapshot
  const { startMs } = windowFor(days, nowMs)
  if (isNetwork(client)) {
    const filter = await findFiltered(snapshot, { key: client }, days)
    return (parameters) =>
      `"timestamp" >= ${dialect.fromMs(parameters.add(startMs))}${filtered(dialect, filter, parameters)}`
  }
  // A client that was cut has a key of which more may have been kept.
  const keys = client.length < MAX_KEY_LENGTH ? keysForClient(client, await readRuleNames(snapshot, days)) : undefined
  return (parameters) => {
    const isOfKeys =
      keys === undefined ? '' : `${dialect.isOneOf('key', parameters.add(JSON.stringify(keys)), 'text')} AND `
    return `${isOfKeys}"timestamp" >= ${dialect.fromMs(parameters.add(startMs))} AND (${CLIENT}) = ${parameters.add(client)}`
  }
}
