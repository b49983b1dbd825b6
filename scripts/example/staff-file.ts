import { randomBytes } from 'node:crypto'
import { link, readFile, rm, writeFile } from 'node:fs/promises'
import { Check } from 'typebox/schema'
import { hashPassword } from '../../src/dashboard.js'
import { errorCode } from '../../src/ground/errors.js'

/** The settings of the built-in sign-in that have to survive a restart. */
export interface StaffFile {
  /** Password hashes by account name. */
  readonly accounts: Record<string, string>
  readonly sessionSecret: string
}

const STAFF_FILE = {
  type: 'object',
  required: ['accounts', 'sessionSecret'],
  properties: {
    accounts: { type: 'object', additionalProperties: { type: 'string' } },
    sessionSecret: { type: 'string' },
  },
} as const

/**
 * Reads the accounts, or creates one where the file does not exist.
 *
 * @returns the accounts, and the password when it is new; it is not stored
 */
export async function openStaffFile(path: string): Promise<{ staff: StaffFile; newPassword?: string }> {
  const existing = await readStaffFile(path)
  if (existing !== undefined) return { staff: existing }
  const newPassword = randomBytes(12).toString('base64url')
  const staff = {
    accounts: { staff: await hashPassword(newPassword) },
    sessionSecret: randomBytes(32).toString('base64url'),
  }
  if (await createFile(path, `${JSON.stringify(staff, null, 2)}\n`)) return { staff, newPassword }
  return openStaffFile(path)
}

async function readStaffFile(path: string): Promise<StaffFile | undefined> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  const staff = parseJson(text)
  if (Check(STAFF_FILE, staff)) return staff
  throw new Error(`${path} does not hold staff accounts: delete it, and the next start makes a new password`)
}

/** Creates the file completely or not at all, readable for its owner only. Returns whether there was none yet. */
async function createFile(path: string, text: string): Promise<boolean> {
  const draft = `${path}.${process.pid}`
  try {
    await writeFile(draft, text, { mode: 0o600, flag: 'wx' })
    await link(draft, path)
    return true
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false
    throw error
  } finally {
    await rm(draft, { force: true })
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
