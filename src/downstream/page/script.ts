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
