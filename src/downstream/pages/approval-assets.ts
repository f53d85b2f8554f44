/** Style and script of the approval pages, inline, with hashes in the content security policy. */

/** How the pages of approvals look: in light and dark, down to the width of a phone. */
export const style = `
:root {
  color-scheme: light dark;
  --back: #ffffff; --box: #f3f4f6; --text: #1a1c20; --faint: #555b66; --line: #c9ced6; --link: #0b57b0;
  --safe: #0b6b34; --reversible: #8a4b00; --destructive: #b3161d; --button: #ffffff; --hidden: #ffe08a; --dark: #1a1c20;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #15171b; --box: #22252b; --text: #eceef1; --faint: #b0b6c0; --line: #434954; --link: #8ab8ff;
    --safe: #7fd69c; --reversible: #f3b664; --destructive: #ff9c97; --button: #15171b;
  }
}
* { box-sizing: border-box }
[hidden] { display: none !important }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 46rem; padding: 1.5rem 1rem 3rem; background: var(--back); color: var(--text); overflow-wrap: anywhere }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem }
h2 { font-size: 1rem; margin: 1.5rem 0 .5rem }
a { color: var(--link) }
.message { font-size: 1.125rem; border-left: .25rem solid var(--line); padding-left: .75rem; white-space: pre-wrap }
.risk { font-weight: 600 }
.safe { color: var(--safe) }
.reversible { color: var(--reversible) }
.destructive { color: var(--destructive) }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .25rem 1rem; margin: 0 }
dt { color: var(--faint) }
dd { margin: 0 }
code, pre { font: .9375rem/1.45 ui-monospace, monospace }
pre { background: var(--box); border: 1px solid var(--line); border-radius: .375rem; margin: 0; max-height: 26rem; overflow: auto; padding: .75rem; white-space: pre-wrap }
mark { background: var(--hidden); border-radius: .2rem; color: var(--dark); padding: 0 .15rem }
.size { color: var(--faint); font-size: .9375rem; margin: .25rem 0 0 }
ul { padding: 0; list-style: none; margin: 0 }
li { border-top: 1px solid var(--line); padding: .75rem 0 }
li a { font-weight: 600; display: inline-block; padding: .5rem 0 }
label { display: block; margin: 1rem 0 .25rem }
input { font: inherit; width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--faint); border-radius: .375rem; background: var(--back); color: var(--text) }
input[type='checkbox'] { width: 1.25rem; min-height: 1.25rem; margin: 0 .5rem 0 0; vertical-align: text-bottom }
.buttons { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.25rem }
button { flex: 1 1 8rem; font: inherit; font-weight: 600; min-height: 3rem; padding: .5rem 1rem; border-radius: .375rem; border: 2px solid var(--text); background: var(--back); color: var(--text); cursor: pointer }
.approve { background: var(--text); color: var(--button) }
.notice { border: 2px solid var(--destructive); border-radius: .375rem; padding: .5rem .75rem }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
`

/**
 * Shows the times on the pages of approvals as the clock of the reader has them. Without it they stay in UTC, which
 * they say.
 */
export const script = `
'use strict'
{
  const format = new Intl.DateTimeFormat(undefined, {
    year: 'numeric', month: 'short', day: 'numeric', hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
  })
  for (const each of document.querySelectorAll('time[datetime]')) {
    each.title = each.textContent
    each.textContent = format.format(new Date(each.dateTime))
  }
}
`
