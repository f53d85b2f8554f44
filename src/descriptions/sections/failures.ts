/** Sections about rate limits and errors. */
import { GatewayError } from '../../core/error.ts'
import { wireFailures } from '../model/failures.ts'
import type { ServerDescription, Section } from '../model/description.ts'
import { bullets, code, inline, jsonBlock, listed, sentence } from '../model/text.ts'

/** What limits calls, and how they fail. */
export function failureSections(description: ServerDescription): Section[] {
  return [rateLimits(description), errorHandling(description)]
}

function rateLimits({ front, tools }: ServerDescription): Section {
  const own = tools.flatMap(({ name, facts }) =>
    facts.rates && facts.rates.length > 0 ? [{ name, rates: facts.rates }] : [],
  )
  const lines = [
    front.rates.length > 0 ? `All calls of one caller: ${listed(front.rates.map(inline))}.` : '',
    ...own.slice(0, 50).map(({ name, rates }) => `${code(name)}: ${listed(rates.map(inline))}.`),
    ...front.limits.map((limit) => sentence(inline(limit))),
  ].filter((line) => line !== '')
  const isRated = front.rates.length > 0 || own.length > 0
  const unset = 'The gateway sets no rate limit here; the server behind it may have its own.'
  const markdown = [
    bullets(isRated ? lines : [unset, ...lines]),
    isRated ? `A call over the limit is answered with:\n\n${jsonBlock(limitError())}` : '',
  ]
  return {
    key: 'rateLimits',
    heading: 'Rate Limits',
    markdown: markdown.filter((part) => part !== '').join('\n\n'),
    data: {
      rateLimits: {
        limits: front.rates,
        tools: Object.fromEntries(own.map(({ name, rates }) => [name, rates])),
        other: front.limits,
        ...(isRated && { error: limitError().error }),
      },
    },
  }
}

function limitError() {
  const { rpc, message, data } = new GatewayError('RATE_LIMIT_EXCEEDED', 'Rate limit exceeded.', {
    retryAfterSeconds: 12,
  })
  return { error: { code: rpc, message, data } }
}

function errorHandling(description: ServerDescription): Section {
  const failures = wireFailures(description)
  const lines = failures.map(({ code: name, rpc, description, resolution }) => {
    const number = rpc === undefined ? '' : ` (${rpc})`
    return [`${code(name)}${number}: ${description}`, resolution]
      .filter((part) => part !== undefined)
      .join(' ')
  })
  const intro =
    'Errors with a number come as JSON-RPC errors, with details in `error.data`; the others as results with `isError: true`. Each has a `code`, a `category` and, where trying again helps, `retry_after_seconds`. Only `transient` and `rate_limited` ones are worth trying again unchanged.'
  return {
    key: 'errorHandling',
    heading: 'Error Handling',
    markdown: `${intro}\n\n${bullets(lines)}`,
    data: { errorHandling: failures },
  }
}
