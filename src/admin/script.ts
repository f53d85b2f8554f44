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
