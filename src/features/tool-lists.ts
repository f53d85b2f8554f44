import type { Middleware } from '../core/call.ts'
import { Payload } from '../core/payload.ts'

/** Describes each tool of a server's lists anew; a tool it gives back as it was keeps its text. */
export function describingTools(describe: (tool: Payload) => Payload): Middleware {
  let last: { readonly text: string; readonly shown: Payload } | undefined
  let lastTools: { readonly text: string; readonly shown: Payload | undefined } | undefined
  const shown = (result: Payload): Payload => {
    const tools = result.at('tools')
    if (!tools || !Array.isArray(tools.value)) return result
    const { text } = tools
    // What stands around them may differ from time to time, such as what is left of a limit.
    if (lastTools?.text !== text) lastTools = { text, shown: changed(tools, describe) }
    return lastTools.shown ? result.with({ tools: lastTools.shown }) : result
  }
  return (next) => async (call) => {
    const outcome = await next(call)
    if (outcome.kind !== 'result') return outcome
    // The same text is the same list: what was made of it is passed on as it was, and is encoded once.
    const { text } = outcome.result
    if (last?.text !== text) last = { text, shown: shown(outcome.result) }
    return last.shown.text === text ? outcome : { kind: 'result', result: last.shown }
  }
}

/** The same list with its entries changed; nothing where none is. */
function changed(tools: Payload, describe: (tool: Payload) => Payload): Payload | undefined {
  const before = tools.items
  const after = before.map(describe)
  if (after.every((tool, index) => tool === before[index])) return undefined
  return Payload.text(`[${after.map(({ text }) => text).join(',')}]`)
}
