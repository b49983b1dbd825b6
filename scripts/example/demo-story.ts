/**
 * The story of the demo: a shop's API with visitors and customers. Since 25 minutes a scraper uses twelve addresses of one
 * network, one address guesses passwords, one customer exceeds its limit by mistake, and a campaign meets a rule that was
 * edited to a rate that is too low. Customers ask an assistant, whose limit is in tokens.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'

/** Requests of one client to one route. */
export interface Traffic {
  readonly address: string
  /** The customer who is signed in; null for a stranger. */
  readonly user: number | null
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** @param sinceStartMs the time since the demo began, negative before */
  perMinute(atMs: number, sinceStartMs: number): number
}

/** The limit of what customers use of the shop's assistant, a language model. */
export const ASSISTANT_RULE = {
  name: 'assistant',
  description: 'Tokens of the language model',
  pathPattern: '^/assistant$',
  method: 'POST',
  key: 'user',
  rate: '50000/d',
  unit: 'tokens',
  reserve: 2_000,
}

/** The rules of the story, as the database keeps them; the highest priority first. */
export const DEMO_RULES = [
  {
    name: 'login',
    description: 'Guessing passwords',
    pathPattern: '^/login$',
    method: 'POST',
    key: 'ip',
    rate: '10/m',
  },
  { name: 'search', description: 'Costs the most', pathPattern: '^/search$', method: 'GET', key: 'user', rate: '60/m' },
  { name: 'orders', description: '', pathPattern: '^/orders$', method: 'POST', key: 'user', rate: '30/m' },
  ASSISTANT_RULE,
  { name: 'products', description: '', pathPattern: '^/products/', method: 'GET', key: 'user', rate: '5/m' },
].map((rule, index) => ({ ...rule, priority: 50 - 10 * index }))

/** The fields of rules before the edit that began an incident. */
export const RULE_BEFORE: Readonly<Record<string, { readonly rate: string }>> = { products: { rate: '60/m' } }

export const STORY_DAYS = 7
/** The time before the start of the demo at which the incidents began. */
export const INCIDENT_MS = 25 * MINUTE_MS
const GUESSING_STARTED_MS = 4 * DAY_MS - 2 * HOUR_MS
const BUSIEST_HOUR = 15

const range = (length: number): number[] => Array.from({ length }, (_, index) => index + 1)

const visitors: Traffic[] = range(40).map((number) => ({
  address: `192.0.2.${number}`,
  user: null,
  method: 'GET',
  path: number % 3 === 0 ? '/search' : `/products/${number}`,
  perMinute: (atMs) => 0.1 * dayFactor(atMs),
}))

const customers: Traffic[] = range(12).map((number) => ({
  address: `198.51.100.${number}`,
  user: 1_000 + number,
  method: number % 4 === 0 ? 'POST' : 'GET',
  path: number % 4 === 0 ? '/orders' : '/search',
  perMinute: (atMs) => 0.2 * dayFactor(atMs),
}))

/** What customers ask the assistant, since the demo began: before, there is its usage alone. */
export const ASSISTANT_TRAFFIC: readonly Traffic[] = customers.map((customer) => ({
  ...customer,
  method: 'POST',
  path: '/assistant',
  perMinute: (atMs) => 2 * dayFactor(atMs),
}))

/** A customer whose program has synchronized every six hours, and since the incident began does so without a pause. */
const eagerCustomer: Traffic = {
  address: '198.51.100.7',
  user: 1_007,
  method: 'GET',
  path: '/search',
  perMinute: (atMs, sinceStartMs) => (isIncident(sinceStartMs) ? 160 : atMs % (6 * HOUR_MS) < 5 * MINUTE_MS ? 45 : 0),
}

const scraper: Traffic[] = range(12).flatMap((number) => {
  const address = `203.0.113.${9 + number}`
  return [
    { address, user: null, method: 'GET', path: '/search', perMinute: duringIncident(90) },
    { address, user: null, method: 'POST', path: '/login', perMinute: duringIncident(14) },
  ]
})

/** Customers whom a campaign brought, and whom the edited rule refuses now and then: each too rarely for an incident. */
const shoppers: Traffic[] = range(80).map((number) => ({
  address: `198.51.100.${100 + number}`,
  user: 2_000 + number,
  method: 'GET',
  path: `/products/${number % 5}`,
  perMinute: duringIncident(3.5),
}))

/** A client that guesses passwords, as it did for half an hour days ago. */
const guesser: Traffic = {
  address: '192.0.2.200',
  user: null,
  method: 'POST',
  path: '/login',
  perMinute: (_atMs, sinceStartMs) => {
    const sinceGuessingMs = sinceStartMs + GUESSING_STARTED_MS
    return isIncident(sinceStartMs) || (sinceGuessingMs > 0 && sinceGuessingMs < HOUR_MS / 2) ? 40 : 0
  },
}

export const TRAFFIC: readonly Traffic[] = [...visitors, ...customers, eagerCustomer, ...scraper, ...shoppers, guesser]

function isIncident(sinceStartMs: number): boolean {
  return sinceStartMs > -INCIDENT_MS
}

function duringIncident(perMinute: number): Traffic['perMinute'] {
  return (_atMs, sinceStartMs) => (isIncident(sinceStartMs) ? perMinute : 0)
}

/** Returns how busy an hour of the day is, 0.2 to 1. */
function dayFactor(atMs: number): number {
  const hour = (atMs % DAY_MS) / HOUR_MS
  return 0.6 + 0.4 * Math.cos(((hour - BUSIEST_HOUR) / 24) * 2 * Math.PI)
}

/** Returns how many requests come within a time, as they come by themselves: at random, with the given mean. */
export function requestsWithin(mean: number, random: () => number): number {
  // Knuth, The Art of Computer Programming, volume 2, 3.4.1: a Poisson variable for small means.
  const least = Math.exp(-mean)
  let requests = 0
  for (let product = random(); product > least; product *= random()) requests++
  return requests
}
