import { hashPassword as hash } from '../../src/staff/passwords.js'
import { defineCommand } from './support/command.js'
import { readPassword } from './support/read-password.js'

export const hashPassword = defineCommand({
  name: 'hash-password',
  summary: 'Hash a staff password',
  description: [
    'Reads a password from standard input, or asks for it on a terminal without showing it, and prints the hash that staffAccounts({ accounts }) takes.',
    'The hash has dollar signs: put it into single quotes in a shell. There is no option for the password, since arguments are seen by everybody on the machine and kept in the history of the shell.',
  ],
  options: {},
  environment: {},
  example: 'ratelimit hash-password < password.txt',

  async run() {
    const passwordHash = await hash(await readPassword())
    return { json: { hash: passwordHash }, lines: [passwordHash] }
  },
})
