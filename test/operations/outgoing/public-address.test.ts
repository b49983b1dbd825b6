import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  isPrivateHost,
  isPublicAddress,
  lookupPublic,
  PrivateNetworkError,
} from '../../../src/operations/outgoing/public-address.js'
import { startAlerts } from '../../support/alerts.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

const REFUSAL = 'leads into a private network, which blockPrivateNetworks refuses'

describe('with blockPrivateNetworks a webhook', () => {
  // Each of them leads to this machine, where a server listens.
  for (const host of [
    '127.0.0.1',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '017700000001',
    '①②⑦.0.0.1',
    '127。0。0。1',
    '127.0.0.1.',
    '0.0.0.0',
    '0',
    'localhost',
    'LOCALHOST',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:ffff:7f00:0001]',
    'somebody:password@127.0.0.1',
  ]) {
    test(`to ${host} is refused, and never connects`, async (t) => {
      const { port, posts } = await startWebhookReceiver(t)
      const { analytics, block } = await startAlerts(t)
      await block('ip:203.0.113.7', 8)
      const alertWebhook = `http://${host}:${port}/hook`
      const { channels } = await analytics({ alertWebhook, blockPrivateNetworks: true }).sendOffenderAlerts({
        threshold: 5,
      })

      assert.deepEqual(channels, { webhook: { sent: false, error: REFUSAL } })
      assert.equal(posts.length, 0)
    })
  }

  test('that is given for one call is refused as well', async (t) => {
    const { url, posts } = await startWebhookReceiver(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const { sendOffenderAlerts } = analytics({ blockPrivateNetworks: true })
    const { channels } = await sendOffenderAlerts({ threshold: 5, webhookUrl: url })

    assert.deepEqual([channels.webhook?.error, posts.length], [REFUSAL, 0])
  })
})

describe('an address', () => {
  for (const address of [
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '169.254.169.254',
    '168.63.129.16',
    '::ffff:168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
    '100.64.0.1',
    '192.0.0.1',
    '192.0.2.1',
    '198.18.0.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    'fc00::1',
    'fd00:ec2::254',
    'fe80::1',
    'fec0::1',
    'ff02::1',
    '::a00:1',
    '::ffff:10.0.0.1',
    '64:ff9b::10.0.0.1',
    '64:ff9b:1::1',
    '2002:7f00:1::',
    '2001::1',
    '2001:db8::1',
    '100::1',
    '4000::1',
    'localhost',
    '',
  ]) {
    test(`such as ${JSON.stringify(address)} is not one of the internet`, () => {
      assert.equal(isPublicAddress(address), false)
    })
  }

  for (const address of ['1.1.1.1', '8.8.8.8', '::ffff:8.8.8.8', '2606:4700::1111', '2a00:1450::1']) {
    test(`such as ${address} is one of the internet`, () => {
      assert.equal(isPublicAddress(address), true)
      assert.equal(isPrivateHost(address.includes(':') ? `[${address}]` : address), false)
    })
  }
})

test('a name is resolved and checked in the one step in which it is connected to', async () => {
  for (const options of [{ all: true }, {}]) {
    const error = await new Promise((resolve) => lookupPublic('localhost', options, resolve))
    assert.ok(error instanceof PrivateNetworkError)
  }
})
