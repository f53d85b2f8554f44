/** Style and script of the front page, inline, with hashes in the content security policy. */

/** How the page looks: in light and dark, down to the width of a phone. */
export const style = `
:root {
  color-scheme: light dark;
  --back: #ffffff; --box: #f5f6f8; --text: #1a1c20; --faint: #555b66; --line: #d5d9e0; --edge: #7d8490; --link: #0b57b0;
  --safe: #0b6b34; --safe-back: #e6f4ea; --reversible: #7d4400; --reversible-back: #fdf0dc; --destructive: #a8141b;
  --destructive-back: #fdeaea; --asked: #5b2a9d; --asked-back: #f1eafb; --plain-back: #eceef2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #15171b; --box: #1e2126; --text: #eceef1; --faint: #b0b6c0; --line: #363b45; --edge: #7d8490; --link: #8ab8ff;
    --safe: #8be0a8; --safe-back: #14301f; --reversible: #f5c076; --reversible-back: #38280f; --destructive: #ffa8a3;
    --destructive-back: #40191a; --asked: #cdb2ff; --asked-back: #2b2140; --plain-back: #2a2e36;
  }
}
* { box-sizing: border-box }
[hidden] { display: none !important }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0; background: var(--back); color: var(--text); overflow-wrap: anywhere }
header, main, footer { max-width: 58rem; margin: 0 auto; padding: 0 1rem }
header { padding-top: 1.75rem }
main { padding-bottom: 1rem }
footer { border-top: 1px solid var(--line); color: var(--faint); margin-top: 2rem; padding-top: 1rem; padding-bottom: 2.5rem }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0; letter-spacing: -.01em }
h1 svg { width: 1.75rem; height: 1.75rem; fill: currentColor; vertical-align: -.2em; margin-right: .5rem }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.25rem 0 .75rem }
h3 { display: inline; font-size: 1.0625rem; margin: 0 }
h4 { font-size: .875rem; color: var(--faint); font-weight: 600; margin: 1rem 0 .25rem }
p { margin: .5rem 0 }
a { color: var(--link); text-underline-offset: .15em }
code, pre { font: .9375rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
.lead { color: var(--faint); margin: .375rem 0 0 }
.skip { position: absolute; left: -100rem }
.skip:focus { left: 1rem; top: .5rem; background: var(--back); padding: .5rem .75rem }
.copied { display: flex; align-items: flex-start; gap: .5rem; margin: .5rem 0 }
.copied > :first-child { flex: 1; min-width: 0; background: var(--box); border: 1px solid var(--line); border-radius: .5rem; margin: 0; padding: .625rem .75rem; white-space: pre-wrap }
button, .button { font: inherit; font-weight: 600; min-height: 2.75rem; padding: .5rem 1rem; border-radius: .5rem; border: 1px solid var(--edge); background: var(--back); color: var(--text); cursor: pointer }
.button { display: inline-block; text-decoration: none }
button:hover, .button:hover { background: var(--box) }
.copied button { min-width: 6.5rem }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0 }
summary { cursor: pointer; list-style: none; padding: .625rem .75rem; border-radius: .5rem; position: relative; padding-left: 2rem }
summary::-webkit-details-marker { display: none }
summary::before { content: ''; position: absolute; left: .875rem; top: 1.125rem; width: .4rem; height: .4rem; border: solid var(--faint); border-width: 0 2px 2px 0; transform: rotate(-45deg) }
details[open] > summary::before { transform: rotate(45deg) }
summary:hover { background: var(--box) }
.inside { padding: 0 .75rem .75rem 2rem }
form { display: flex; flex-wrap: wrap; align-items: end; gap: .5rem; margin: 0 }
form div { flex: 1 1 14rem }
label { display: block; font-weight: 600; margin-bottom: .25rem }
input { font: inherit; width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--edge); border-radius: .5rem; background: var(--back); color: var(--text) }
.waiting { border: 2px solid var(--asked); border-radius: .75rem; margin-top: 1.5rem; padding: 0 1rem 1rem }
.waiting h2 { margin: .75rem 0 .5rem }
.waiting ul { list-style: none; margin: 0; padding: 0 }
.waiting li { border-top: 1px solid var(--line); padding: .5rem 0 }
.waiting li a { display: inline-block; font-weight: 600; padding: .25rem 0 }
.waiting p { margin: .125rem 0 }
.found { display: flex; flex-wrap: wrap; gap: 0 1rem; color: var(--faint); margin: .5rem 0 .75rem; min-height: 1.5rem }
.found p { margin: 0 }
.server { border-radius: .75rem; margin: .75rem 0 }
.server > summary { display: flex; flex-wrap: wrap; align-items: baseline; gap: .125rem .75rem; padding-top: .875rem; padding-bottom: .875rem; border-radius: .75rem }
.server > summary::before { top: 1.375rem }
.server > .inside { padding-left: .75rem }
.about { color: var(--faint) }
.state { font-weight: 600; white-space: nowrap }
.state::before { content: ''; display: inline-block; width: .625rem; height: .625rem; border-radius: 50%; margin-right: .375rem; background: currentColor }
.ready { color: var(--safe) }
.starting { color: var(--reversible) }
.unavailable { color: var(--destructive) }
.unavailable::before { border-radius: 1px }
.purpose { flex-basis: 100%; color: var(--faint) }
.clients { border: 1px solid var(--line); border-radius: .5rem; margin: .75rem 0 }
.clients details { border: 0; margin: 0 }
.clients details + details { border-top: 1px solid var(--line); border-radius: 0 }
dl { display: grid; grid-template-columns: minmax(5.5rem, max-content) minmax(0, 1fr); gap: .25rem 1rem; margin: .75rem 0 }
dt { color: var(--faint) }
dd { margin: 0 }
.links { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: .75rem 0; padding: 0 }
.links a { display: inline-block; padding: .25rem 0 }
.tools { list-style: none; margin: .75rem 0 0; padding: 0 }
.tool { border-top: 1px solid var(--line) }
.tool > details { border: 0; margin: 0 }
.tool > details > .inside { padding-bottom: 1rem }
.name { font-weight: 600 }
.also { color: var(--faint) }
.summary { display: block }
.marks { display: flex; flex-wrap: wrap; gap: .25rem .375rem; margin-top: .375rem }
.mark { background: var(--plain-back); border-radius: .375rem; font-size: .875rem; line-height: 1.3; padding: .125rem .5rem }
.mark.safe { color: var(--safe); background: var(--safe-back) }
.mark.reversible { color: var(--reversible); background: var(--reversible-back) }
.mark.destructive { color: var(--destructive); background: var(--destructive-back); font-weight: 600 }
.mark.asked { color: var(--asked); background: var(--asked-back) }
.description { white-space: pre-wrap }
.notice { border: 2px solid var(--destructive); border-radius: .5rem; padding: .625rem .75rem; margin: 1rem 0 }
.states { list-style: none; margin: 0; padding: 0 }
.states li { display: flex; flex-wrap: wrap; gap: 0 .75rem; border-top: 1px solid var(--line); padding: .5rem 0 }
.states code { flex-basis: 100%; color: var(--faint) }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
@media (max-width: 30rem) {
  .inside, .server > .inside { padding-left: .75rem }
  .copied { flex-direction: column; align-items: stretch }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0 }
  dd { margin-bottom: .5rem }
}
@media (prefers-reduced-motion: no-preference) { summary::before { transition: transform .15s } }
`

/** Filters the page as people type, and copies what is there to be copied. Without it the form asks for the page anew. */
export const script = `
'use strict'
{
  const form = document.querySelector('form[role=search]')
  const servers = [...document.querySelectorAll('.server')].map((box) => {
    const name = box.dataset.find.toLowerCase()
    const tools = [...box.querySelectorAll('.tool')].map((tool) => ({
      tool,
      text: name + ' ' + (tool.dataset.find + ' ' + tool.querySelector('summary').textContent).toLowerCase(),
    }))
    return { box, name, tools, isOpen: box.dataset.open !== undefined }
  })
  const wordsOf = (text) => text.toLowerCase().split(/\\s+/).filter((word) => word !== '')
  const filter = (query) => {
    const words = wordsOf(query)
    let shown = 0
    let total = 0
    for (const { box, name, tools, isOpen } of servers) {
      let own = 0
      for (const { tool, text } of tools) {
        const isFound = words.every((word) => text.includes(word))
        tool.hidden = !isFound
        if (isFound) own++
      }
      shown += own
      total += tools.length
      box.hidden = own === 0 && !words.every((word) => name.includes(word))
      box.open = words.length > 0 ? own > 0 : isOpen
    }
    document.querySelector('#count').textContent =
      words.length > 0 ? shown + ' of ' + total + ' tools match' : total + (total === 1 ? ' tool' : ' tools')
    document.querySelector('#nothing').hidden = servers.some(({ box }) => !box.hidden)
    document.querySelector('#all').hidden = words.length === 0
    const search = query.trim() === '' ? location.pathname : '?q=' + encodeURIComponent(query.trim())
    history.replaceState(null, '', search)
  }
  if (form) {
    const field = form.elements.q
    field.addEventListener('input', () => filter(field.value))
    field.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return
      field.value = ''
      filter('')
    })
    form.addEventListener('submit', (event) => {
      event.preventDefault()
      filter(field.value)
    })
    document.querySelector('#all').addEventListener('click', (event) => {
      event.preventDefault()
      field.value = ''
      filter('')
      field.focus()
    })
    form.querySelector('button').hidden = true
  }
  if (navigator.clipboard) {
    for (const box of document.querySelectorAll('.copied')) {
      const button = document.createElement('button')
      button.type = 'button'
      button.textContent = 'Copy'
      button.setAttribute('aria-label', 'Copy ' + box.dataset.what)
      button.addEventListener('click', () => {
        navigator.clipboard.writeText(box.firstElementChild.textContent).then(
          () => (button.textContent = 'Copied'),
          () => (button.textContent = 'Not copied'),
        )
      })
      box.append(button)
    }
  }
}
`
