/** The settings of what is stored of addresses, described once. */

import { VALIDATORS } from '../generated/validators.js'
import { InvalidSettingError } from '../ground/errors.js'
import {
  parseSettings,
  type Resolved,
  readNumber,
  type SettingTable,
  shown,
  validateSettings,
} from '../ground/setting.js'
import { type AddressForm, type AddressPrivacy, createAddressPrivacy } from './address-privacy.js'

export interface PrivacyOptions {
  readonly addresses: AddressForm
}

/** The settings of privacy, as options. */
export interface PrivacySettingOptions {
  /**
   * The secret of the HMACs of header values and addresses, at least 16 characters; for `hashHeaderKeys` or `privacy`.
   */
  hashSecret?: string | undefined
  /**
   * The part of clients' addresses that is stored: `{ addresses: 'full' }` (the default), `'truncated'` (the log has
   * the /24, of IPv6 the /48) or `'pseudonym'` (the log has an HMAC). Both others need `hashSecret`; counters and bans
   * then have the HMAC.
   */
  privacy?: PrivacyOptions | undefined
  /** The number of leading bits of an IPv6 address that identify a client, 1 to 128; 64 by default. */
  ipv6Subnet?: number | undefined
}

export const PRIVACY_SETTINGS = {
  hashSecret: {
    ...VALIDATORS.secret,
    isSecret: true,
  },
  privacy: {
    ...VALIDATORS.privacy,
    default: { addresses: 'full' },
    read: (text) => ({ addresses: text }),
  },
  ipv6Subnet: {
    ...VALIDATORS.subnet,
    default: 64,
    read: readNumber,
  },
} as const satisfies SettingTable<PrivacySettingOptions>

/** @throws InvalidSettingError for an invalid setting, or a missing secret */
export function resolvePrivacy(options: PrivacySettingOptions): AddressPrivacy | undefined {
  const called = (name: string) => name
  validateSettings(PRIVACY_SETTINGS, options, called)
  return privacyFrom(parseSettings(PRIVACY_SETTINGS, options, called), called)
}

/**
 * Returns the secret of the HMACs of header values; undefined where they are logged and counted as they are.
 *
 * @throws InvalidSettingError without a secret
 */
export function headerSecret(hashHeaderKeys: boolean, hashSecret: string | undefined): string | undefined {
  if (hashHeaderKeys && hashSecret === undefined) {
    throw new InvalidSettingError('Setting "hashHeaderKeys" is true without "hashSecret": give RATELIMIT_HASH_SECRET')
  }
  return hashHeaderKeys ? hashSecret : undefined
}

/**
 * Returns how addresses are stored; undefined where they are stored in full.
 *
 * @param called returns the name of a setting where it was given
 * @throws InvalidSettingError without the secret of the pseudonyms
 */
export function privacyFrom(
  { privacy: { addresses }, hashSecret, ipv6Subnet }: Resolved<PrivacySettingOptions, typeof PRIVACY_SETTINGS>,
  called: (name: string) => string,
): AddressPrivacy | undefined {
  if (addresses === 'full') return undefined
  if (hashSecret === undefined) {
    throw new InvalidSettingError(
      `Setting "${called('privacy')}" is ${shown({ addresses })} without "hashSecret", of which pseudonyms are made: give hashSecret, or RATELIMIT_HASH_SECRET, a text of at least 16 characters that stays the same`,
    )
  }
  return createAddressPrivacy({ addresses, secret: hashSecret, ipv6Subnet })
}
