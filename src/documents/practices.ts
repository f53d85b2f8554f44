import { NS } from '../wire/extensions.ts'
import { pagingArguments } from './observed.ts'
import type { ServerDescription, ToolDescription } from './portrait.ts'
import { code, firstListed, inline, listed, toolCode } from './text.ts'

/** How to use it well, each in a sentence of markdown. */
export function bestPractices({ tools, front }: ServerDescription): string[] {
  const changing = tools.filter(({ classification }) => classification.op !== 'read')
  const asked = tools.filter(({ facts }) => facts.confirmation)
  const keyed = changing.filter(
    ({ facts, classification }) => facts.isIdempotentWithKey === true && !classification.idempotent,
  )
  const undone = changing.filter(({ facts }) => facts.undo)
  const paged = tools.filter((tool) => pagingArguments(tool).length > 0)
  const said = [
    changing.length > 0 && changing.length < tools.length
      ? 'Read before you change, and check with a read after.'
      : '',
    keyed.length > 0
      ? `Where your client can set \`_meta\`, give each changing call an idempotency key of its own in \`_meta["${NS}/idempotency_key"]\`; to retry, send the same call with the same key, and nothing happens twice.`
      : '',
    asked.length > 0
      ? `Before ${names(asked)} a person is asked. Say first what you are about to do; never look for another way when the answer is no.`
      : '',
    undone.length > 0 ? `${names(undone)} can be undone.` : '',
    undone.length > 0 && front.extensions.includes('transactions') ? transactions[front.ownTools] : '',
    paged.length > 0
      ? `Results of ${names(paged)} come in pages: ask for the next one with ${pages(paged)}.`
      : '',
    ...tools.flatMap((tool) =>
      tool.isDeprecated && tool.words.deprecated !== undefined
        ? `${toolCode(tool)} is deprecated: ${inline(tool.words.deprecated)}`
        : [],
    ),
    front.isHelpListed
      ? 'Ask `ai_help` for one section, or for one tool by its name, rather than for everything.'
      : '',
  ]
  return said.filter((line) => line !== '')
}

/** How several changes become one, by how the tools for it are there: a model calls only what lists have. */
const transactions = {
  listed:
    'For several changes that belong together, call `begin_transaction` and give its `transaction_id` with each of them; `rollback_transaction` undoes them in reverse order, `commit_transaction` keeps them.',
  hidden:
    'A client can make one transaction of several changes, by the tools `begin_transaction`, `commit_transaction` and `rollback_transaction`, which lists do not have: rolling it back undoes its steps in reverse order.',
  off: 'A client can make one transaction of several changes, by the methods `transaction/begin`, `transaction/commit` and `transaction/rollback`: rolling it back undoes its steps in reverse order.',
} as const

/** How many tools a sentence names. */
const MAX_NAMED_TOOLS = 6

function names(tools: readonly ToolDescription[]): string {
  return firstListed(tools.map(toolCode), MAX_NAMED_TOOLS)
}

function pages(tools: readonly ToolDescription[]): string {
  return listed([...new Set(tools.flatMap(pagingArguments))].slice(0, 4).map(code), 'or')
}
