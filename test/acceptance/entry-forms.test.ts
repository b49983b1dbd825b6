/** The forms of rules and overrides on the staff pages, as a browser without JavaScript uses them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openForms } from '../support/staff-forms.js'

test('a rule is created by its form, which leads to the list with a sentence', async (t) => {
  const { get, submit } = await openForms(t, 'sqlite')
  const saved = await submit('rule.html', { name: 'login', pathPattern: '^/login', rate: '5/m' })
  assert.deepEqual([saved.status, saved.headers.location], [303, 'rules.html'])
  assert.match((await get('rule.html?named=login')).text, /value="5\/m"/)
})

test('a wrong field answers 400 with what was typed, and the error at the field', async (t) => {
  const { submit } = await openForms(t, 'sqlite')
  const refused = await submit('rule.html', { name: 'login', pathPattern: '^/login', rate: '5 per minute' })
  assert.equal(refused.status, 400)
  assert.match(refused.text, /name="rate" value="5 per minute"[^>]* aria-invalid="true" aria-describedby="error-rate/)
  assert.match(refused.text, /name="pathPattern" value="\^\/login"/)
  assert.equal(refused.text.match(/aria-invalid/g)?.length, 1)
})

test('of two operators who opened a rule the later one is told, and nothing of the earlier one is lost', async (t) => {
  const { submit, open } = await openForms(t, 'sqlite')
  await submit('rule.html', { name: 'login', pathPattern: '^/login', rate: '5/m' })
  const [one, two] = [await open('rule.html?named=login'), await open('rule.html?named=login')]
  assert.equal((await one.submit({ rate: '6/m' })).status, 303)
  const refused = await two.submit({ rate: '7/m' })
  assert.equal(refused.status, 400)
  assert.match(refused.text, /changed since you opened it/)
  assert.match((await open('rule.html?named=login')).text, /value="6\/m"/)
})

test('of two operators who save at once the later one saves with the next click', async (t) => {
  const { submit, open } = await openForms(t, 'sqlite')
  await submit('rule.html', { name: 'login', pathPattern: '^/login', rate: '5/m' })
  const form = await open('rule.html?named=login')
  const answers = await Promise.all(['6/m', '7/m', '8/m', '9/m'].map((rate) => form.submit({ rate })))
  const refused = answers.filter(({ status }) => status === 400)
  assert.equal(refused.length, 3)
  const versions = refused.map(({ text }) => /name="version" value="([^"]*)"/.exec(text)?.[1])
  const present = /name="version" value="([^"]*)"/.exec((await open('rule.html?named=login')).text)?.[1]
  assert.deepEqual(versions, [present, present, present])
})

test('a moment that does not exist is kept as it was typed', async (t) => {
  const { submit } = await openForms(t, 'sqlite')
  const refused = await submit('rule.html', { name: 'a', pathPattern: '^/', rate: '5/m', endsAt: '2026-02-31' })
  assert.equal(refused.status, 400)
  assert.match(refused.text, /name="endsAt" value="2026-02-31"/)
  assert.match(refused.text, /&quot;2026-02-31&quot; is not a valid moment\. Write it as 2h/)
})

test('what is wrong is a sentence that can be read, however long a text was sent', async (t) => {
  const { submit } = await openForms(t, 'sqlite')
  const fields = { name: 'a', pathPattern: '^/', rate: 'x"\n'.repeat(9_000) }
  const refused = await submit('rule.html', fields)
  const [, sentence = ''] = /id="error-rate">([^<]*)</.exec(refused.text) ?? []
  assert.ok(sentence.length < 1_000, `${sentence.length} characters`)
  assert.match(sentence, /Write it as 100\/m\.$/)
  const tooLong = await submit('rule.html', { ...fields, rate: 'x'.repeat(100_000) })
  assert.equal(tooLong.status, 413)
  assert.match(tooLong.text, /Nothing was changed[\s\S]*The form is too long: go back, and shorten your text\./)
})

test('a description has at most 1,000 characters, in the form, the API and documents', async (t) => {
  const { app, submit } = await openForms(t, 'sqlite')
  const rule = { name: 'login', pathPattern: '^/login', rate: '5/m' }
  const refused = await submit('rule.html', { ...rule, description: 'é'.repeat(1_001) })
  assert.equal(refused.status, 400)
  assert.match(refused.text, /id="error-description">It must be at most 1000 characters long\.</)
  assert.match(refused.text, />é{1001}<\/textarea>/)
  assert.equal((await submit('rule.html', { ...rule, description: '語'.repeat(1_000) })).status, 303)

  const { rules } = app.smartRateLimit
  const document = await rules.export()
  const [exported] = document.rules ?? []
  await assert.rejects(
    rules.import({ ...document, rules: [{ ...exported, description: 'a'.repeat(1_001) }] }),
    /description[\s\S]*at most 1000 characters/,
  )
})

test('the name of another rule is refused in whole sentences', async (t) => {
  const { submit } = await openForms(t, 'sqlite')
  const fields = { name: 'login', pathPattern: '^/login', rate: '5/m' }
  await submit('rule.html', fields)
  const refused = await submit('rule.html', fields)
  assert.match(refused.text, />Another rule already has this name\. Give another one\.</)
})

test('a form of another site, or without its token, writes nothing', async (t) => {
  const { submit, open } = await openForms(t, 'sqlite')
  const fields = { name: 'login', pathPattern: '^/login', rate: '5/m' }
  assert.equal((await submit('rule.html', { ...fields, token: 'forged' })).status, 403)
  const form = await open('rule.html')
  assert.equal((await form.submit(fields, { 'sec-fetch-site': 'cross-site' })).status, 403)
  assert.equal((await open('rule.html?named=login')).status, 404)
})
