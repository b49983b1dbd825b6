/*
 * Shows times in the reader's time zone, with UTC on hover, leads to the time that is dragged over in a chart, reads a chosen file into its field, leads to the search by a key, and brings a page that follows up to date, without a flicker:
 * it asks for the page again when there is a newer report, and changes what differs. What is focused, open, scrolled or
 * typed in stays, and no row of a list moves while somebody points at one. Only a page that is seen asks.
 */
;(() => {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
  /** Matches a moment or a range of times in the description of a chart, or of a part of it. */
  const IN_WORDS = /(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?)(?:–(\d\d:\d\d))? UTC/
  const MINUTE_MS = 60_000
  const DAY_MS = 86_400_000
  const MONTH_AND_DAY = new Intl.DateTimeFormat('en-US', { day: 'numeric', month: 'short' })

  /** Returns the parts of a moment, as the reader's clock has it: `2026-01-15`, `13:00:00`. */
  function onClock(ms) {
    const local = new Date(ms - new Date(ms).getTimezoneOffset() * MINUTE_MS)
    return local.toISOString().slice(0, 19).split('T')
  }

  function rangeText(fromMs, untilMs) {
    const [day, from] = onClock(fromMs)
    return `${day} ${from.slice(0, 5)}–${onClock(untilMs)[1].slice(0, 5)}`
  }

  function momentText({ dateTime, dataset }) {
    const ms = Date.parse(dateTime)
    if (dataset.length !== undefined) return rangeText(ms, ms + Number(dataset.length))
    const [day, time] = onClock(ms)
    if (dataset.short === undefined) return `${day} ${time}`
    return dataset.short === 'minute' ? time.slice(0, 5) : time
  }

  function wordsFor(text) {
    return text.replace(IN_WORDS, (moment, day, from, until) => {
      const fromMs = Date.parse(`${day}T${from}Z`)
      const [local, time] = onClock(fromMs)
      const utc = moment.slice(day.length + 1)
      if (until === undefined) return `${local} ${time.slice(0, from.length)} (${utc})`
      return `${rangeText(fromMs, Date.parse(`${day}T${until}Z`))} (${utc})`
    })
  }

  /** Labels the axis of a chart anew: round times of the reader's clock are others. */
  function labelAxis(chart) {
    const times = chart.querySelector('.times')
    const [pattern] = times?.children ?? []
    if (pattern === undefined) return
    const [start, span, step] = ['start', 'span', 'step'].map((name) => Number(chart.dataset[name]))
    const aheadMs = -new Date(start).getTimezoneOffset() * MINUTE_MS
    const labels = []
    for (let ms = Math.ceil((start + aheadMs) / step) * step - aheadMs; ms <= start + span; ms += step) {
      const label = pattern.cloneNode()
      const x = (100 * (ms - start)) / span
      label.setAttribute('x', `${x.toFixed(2)}%`)
      label.setAttribute('text-anchor', x < 1 ? 'start' : x > 96 ? 'end' : 'middle')
      label.classList.toggle('minor', labels.length % 2 === 1)
      label.textContent = (ms + aheadMs) % DAY_MS === 0 ? MONTH_AND_DAY.format(ms) : onClock(ms)[1].slice(0, 5)
      labels.push(label)
    }
    times.replaceChildren(...labels)
  }

  /** Turns the times of a page into those of the reader's clock. */
  function localize(page) {
    if (timeZone === 'UTC') return
    for (const time of page.querySelectorAll('time[datetime]')) {
      time.title = `${time.textContent.replace(/ UTC$/, '')} UTC`
      time.textContent = momentText(time)
    }
    for (const title of page.querySelectorAll('svg title')) title.textContent = wordsFor(title.textContent)
    for (const named of page.querySelectorAll('svg[aria-label], svg [aria-label]')) {
      named.setAttribute('aria-label', wordsFor(named.getAttribute('aria-label')))
    }
    for (const caption of page.querySelectorAll('.numbers caption')) {
      caption.textContent = wordsFor(caption.textContent)
    }
    for (const chart of page.querySelectorAll('svg[data-step]')) labelAxis(chart)
    for (const range of page.querySelectorAll('[data-since]')) {
      const [from, until] = [range.dataset.since, range.dataset.until].map((iso) => onClock(Date.parse(iso)).join(' '))
      range.title = `${from.slice(0, 16)} – ${until.slice(0, 16)} in ${timeZone}`
    }
    for (const utc of page.querySelectorAll('.utc')) utc.remove()
    for (const zone of page.querySelectorAll('.zone')) {
      zone.textContent = `Times are ${timeZone}`
      zone.title = 'Point at a time to see it in UTC'
    }
  }

  localize(document)

  // On a phone the links are one row that scrolls: the one of this page is in view.
  const here = document.querySelector('.shell-links [aria-current="page"]')
  const links = here?.closest('ul')
  if (links)
    links.scrollLeft += here.getBoundingClientRect().left - links.getBoundingClientRect().left - here.offsetWidth / 2

  // A chosen file is read into its field, so that what is sent is what can be seen.
  for (const chooser of document.querySelectorAll('input[type="file"][data-into]')) {
    const field = document.getElementById(chooser.dataset.into)
    chooser.closest('[hidden]').hidden = false
    chooser.addEventListener('change', async () => {
      const [file] = chooser.files
      if (file === undefined) return
      const isRead = await file.text().then(
        (text) => {
          field.value = text
          return true
        },
        () => false,
      )
      chooser.setCustomValidity(isRead ? '' : 'The file cannot be read: choose it again.')
      chooser.reportValidity()
    })
  }

  /** A part of a chart that is being dragged over. */
  let drag

  /** Returns the bars of a chart between two places of the pointer, in milliseconds. */
  function barsBetween({ chart, plot, fromX }, toX) {
    const { left, width } = plot.getBoundingClientRect()
    const [from, length, bar] = ['from', 'length', 'bar'].map((name) => Number(chart.dataset[name]))
    const at = (x) => Math.max(0, Math.min(1, (x - left) / width)) * length
    const [first, last] = [fromX, toX].map(at).sort((one, other) => one - other)
    const sinceMs = Math.min(length - bar, Math.floor(first / bar) * bar)
    const untilMs = Math.max(sinceMs + bar, Math.ceil(last / bar) * bar)
    return { from, length, sinceMs, untilMs }
  }

  /** Shows which bars are dragged over. */
  function mark(x) {
    const { length, sinceMs, untilMs } = barsBetween(drag, x)
    drag.shown ??= drag.plot.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'rect'))
    const attributes = { class: 'dragged', x: sinceMs, width: untilMs - sinceMs, height: 1 }
    for (const [name, value] of Object.entries(attributes)) {
      drag.shown.setAttribute(name, name === 'class' ? value : `${(100 * value) / (name === 'height' ? 1 : length)}%`)
    }
  }

  function endDrag() {
    drag?.shown?.remove()
    drag = undefined
  }

  document.addEventListener('pointerdown', (event) => {
    const chart = event.target.closest?.('svg[data-range]')
    const plot = chart?.querySelector('.plot')
    if (plot === undefined || plot === null || event.button !== 0 || event.pointerType === 'touch') return
    drag = { chart, plot, fromX: event.clientX }
  })
  document.addEventListener('pointermove', (event) => {
    // A click moves a little, too.
    if (drag !== undefined && (drag.shown || Math.abs(event.clientX - drag.fromX) > 5)) mark(event.clientX)
  })
  document.addEventListener('pointerup', (event) => {
    if (drag?.shown === undefined) return endDrag()
    const { from, sinceMs, untilMs } = barsBetween(drag, event.clientX)
    const address = new URL(drag.chart.dataset.range, location.href)
    const spell = (ms) => `${new Date(from + ms).toISOString().slice(0, 16)}Z`
    address.searchParams.set('since', spell(sinceMs))
    address.searchParams.set('until', spell(untilMs))
    endDrag()
    // Not the bar at which it ends.
    const stop = (click) => click.preventDefault()
    addEventListener('click', stop, { capture: true, once: true })
    setTimeout(() => removeEventListener('click', stop, { capture: true }))
    location.assign(address)
  })
  document.addEventListener('pointercancel', endDrag)
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') endDrag()
  })
  // Browsers would drag the link of a bar.
  document.addEventListener('dragstart', (event) => {
    if (event.target.closest?.('svg[data-range]')) event.preventDefault()
  })

  // A menu closes where the focus or the pointer goes elsewhere.
  const openMenus = () => document.querySelectorAll('details.menu[open]')
  document.addEventListener('keydown', ({ key }) => {
    if (key !== 'Escape') return
    for (const menu of openMenus()) {
      const hadFocus = menu.contains(document.activeElement)
      menu.open = false
      if (hadFocus) menu.querySelector('summary').focus()
    }
  })
  for (const left of ['pointerdown', 'focusin']) {
    document.addEventListener(left, ({ target }) => {
      for (const menu of openMenus()) if (!menu.contains(target)) menu.open = false
    })
  }

  // Ctrl K leads to the search, on a Mac ⌘ K, since Ctrl K edits text there. Escape leads back.
  const search = document.getElementById('shell-search')
  if (search !== null) {
    const isMac = /Mac|iPhone|iPad/.test(navigator.platform)
    let before = document.body
    search.setAttribute('aria-keyshortcuts', isMac ? 'Meta+K' : 'Control+K')
    if (matchMedia('(pointer: fine)').matches) search.placeholder += isMac ? ' (⌘ K)' : ' (Ctrl K)'
    document.addEventListener('keydown', (event) => {
      const { key, altKey, shiftKey, ctrlKey, metaKey } = event
      if (key === 'Escape' && document.activeElement === search) {
        event.preventDefault()
        search.value = search.defaultValue
        search.blur()
        before.focus()
      } else if (key.toLowerCase() === 'k' && !altKey && !shiftKey && ctrlKey !== isMac && metaKey === isMac) {
        event.preventDefault()
        if (document.activeElement !== search) before = document.activeElement ?? document.body
        search.focus()
        search.select()
      }
    })
  }

  const bar = document.getElementById('live')
  const state = document.getElementById('live-state')
  const stop = document.getElementById('live-off')
  if (bar === null || state === null || stop === null) return
  const parts = [...document.querySelectorAll('[data-part]')]

  /** The waits after failures, in milliseconds. */
  const LONGEST_MS = 60_000
  let failures = 0
  let timer

  /** Lists in which somebody is about to press something: the pointer or the focus is there, or a menu is open. */
  const IN_HAND = ['hover', 'focus-within', 'has(details.menu[open])'].map((state) => `[data-list]:${state}`).join()
  const isInHand = () => document.querySelector(IN_HAND) !== null
  /** The newest page, where lists differ from it that nobody wants to move. */
  let waiting

  /** Whether two lists have the same rows in the same places: only words, numbers and pictures differ. */
  function hasSameRows(from, to) {
    if (from.nodeName !== to.nodeName || from.dataset.key !== to.dataset.key) return false
    if (from.nodeName === 'svg' || isInUse(from)) return true
    return (
      from.children.length === to.children.length &&
      [...from.children].every((child, place) => hasSameRows(child, to.children[place]))
    )
  }

  /** Changes the parts of the page into those of a newer one. */
  function bringUpToDate(page) {
    waiting = undefined
    const inHand = isInHand()
    for (const part of parts) {
      const its = page.querySelector(`[data-part="${part.dataset.part}"]`)
      if (its !== null) change(part, its, inHand ? page : undefined)
    }
    say(waiting === undefined ? 'Live' : 'The list has changed', false)
  }

  /** Shows what has waited, once nobody points at a list. */
  function catchUp() {
    if (waiting !== undefined && !isInHand() && !isMarking() && drag === undefined) bringUpToDate(waiting)
  }

  /**
   * Changes one tree into another; elements that are alike stay.
   *
   * @param held the page of the other tree, where lists are in somebody's hands: one whose rows would move waits
   */
  function change(from, to, held) {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
      from.replaceWith(document.importNode(to, true))
      return
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue
      return
    }
    if (isInUse(from)) return
    if (held !== undefined && from.dataset.list !== undefined && !hasSameRows(from, to)) {
      waiting = held
      return
    }
    for (const { name } of [...from.attributes]) {
      // Whoever reads opens the details.
      if (!to.hasAttribute(name) && name !== 'open') from.removeAttribute(name)
    }
    for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value)
    changeChildren(from, to, held)
  }

  /** Elements with a key are the same wherever they are: whoever opened one finds it open. */
  function changeChildren(from, to, held) {
    const keyed = new Map([...from.children].map((child) => [child.dataset.key, child]))
    const news = [...to.childNodes]
    news.forEach((node, place) => {
      const at = from.childNodes[place]
      const key = node.dataset?.key
      const own = key === undefined ? undefined : keyed.get(key)
      if (own !== undefined && own !== at) from.insertBefore(own, at ?? null)
      const old = own ?? at
      if (old === undefined) from.append(document.importNode(node, true))
      else if (key !== undefined && own === undefined) from.insertBefore(document.importNode(node, true), old)
      else change(old, node, held)
    })
    while (from.childNodes.length > news.length) from.lastChild.remove()
  }

  /** Whether somebody fills in the forms of an element: the server refuses what is out of date, and keeps what was typed. */
  function isInUse(element) {
    const { keep } = element.dataset
    if (keep === undefined) return false
    // After an action that failed it shows again what was typed.
    if (keep === 'always') return true
    return [...element.querySelectorAll('input, select')].some(
      (field) => field === document.activeElement || valueSent(field) !== field.value,
    )
  }

  /** Returns the value that a field had at first. */
  function valueSent({ tagName, defaultValue, options }) {
    if (tagName !== 'SELECT') return defaultValue
    return ([...options].find(({ defaultSelected }) => defaultSelected) ?? options[0]).value
  }

  function say(text, isLate) {
    if (state.textContent !== text) state.textContent = text
    state.classList.toggle('is-late', isLate)
  }

  /** Whether somebody is marking a text, which a change would undo. */
  function isMarking() {
    const selection = getSelection()
    return selection !== null && !selection.isCollapsed && parts.some((part) => part.contains(selection.anchorNode))
  }

  function wait(ms) {
    clearTimeout(timer)
    timer = setTimeout(follow, ms)
  }

  async function follow() {
    if (document.hidden) return
    if (isMarking() || drag !== undefined) return wait(1_000)
    try {
      const answer = await fetch(bar.dataset.source, { headers: { accept: 'text/html' } })
      if (answer.status === 401 || answer.status === 403) {
        stop.hidden = true
        say('No longer live: load the page again to sign in', true)
        return
      }
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
      const newer = page.getElementById('live')
      if (!answer.ok || newer === null) throw new Error(`The server answered ${answer.status}`)
      localize(page)
      failures = 0
      if (isMarking() || drag !== undefined) say('Live', false)
      else bringUpToDate(page)
      wait(Number(newer.dataset.wait))
    } catch {
      failures += 1
      say('The server does not answer; trying again', true)
      wait(Math.min(LONGEST_MS, 5_000 * 2 ** (failures - 1)))
    }
  }

  // The focus and the menus are where they go once the event is over.
  for (const left of ['pointerout', 'focusout', 'toggle']) {
    document.addEventListener(left, () => setTimeout(catchUp), { capture: true })
  }
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) clearTimeout(timer)
    else wait(0)
  })
  stop.hidden = false
  say('Live', false)
  wait(Number(bar.dataset.wait))
})()
