/**
 * Compares judgements of a folder of tool lists with their labels, and writes fixtures for the test.
 *
 *   node scripts/judgement-corpus.ts LISTS [FIXTURES]
 *
 * LISTS holds `<server>.json` (`server`, `package`, `version`, `tools`: entries of `tools/list`) and
 * `<server>.labels.json` (`tools`: a label and a reason by name). FIXTURES receives one file for each server, without the
 * server's texts: only words of descriptions that the judge knows are kept, all others become `x`. The judgement of the
 * reduced tool must equal that of the original.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { type Context, judge } from '../src/core/judgement/judge.ts'
import {
  confusionTable,
  type Label,
  type LabelledServer,
  lineOf,
  mistakesOf,
  verdictsOf,
} from '../test/support/judgement-table.ts'
import { reducedTool } from '../test/support/reduced-tool.ts'

interface Lists {
  readonly server: string
  readonly package: string
  readonly version?: string
  readonly tools: readonly Readonly<Record<string, unknown>>[]
}

interface Labels {
  readonly tools: Readonly<Record<string, { readonly label: Label; readonly reason: string }>>
}

const [folder = '', fixtures] = process.argv.slice(2)
const servers = readdirSync(folder)
  .filter((file) => file.endsWith('.json') && !file.endsWith('.labels.json'))
  .map((file) => labelled(file.slice(0, -'.json'.length)))

for (const isTrusted of [true, false]) {
  const verdicts = verdictsOf(servers, isTrusted)
  const { unasked, writingRead, tiresome, share } = mistakesOf(verdicts)
  console.log(`\n${servers.length} servers, ${verdicts.length} tools, trust ${isTrusted ? 'on' : 'off'}`)
  console.log(confusionTable(verdicts))
  for (const each of unasked) console.log(`UNASKED  ${lineOf(each)}`)
  for (const each of writingRead) console.log(`READ     ${lineOf(each)}`)
  for (const each of tiresome) console.log(`TIRESOME ${lineOf(each)}`)
  console.log(`asked about without need: ${(share * 100).toFixed(1)} %`)
}
if (fixtures !== undefined) for (const server of servers) write(server, fixtures)

function labelled(name: string): LabelledServer {
  const lists: Lists = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'))
  const labels: Labels = JSON.parse(readFileSync(join(folder, `${name}.labels.json`), 'utf8'))
  const tools = lists.tools.map((definition) => {
    const given = labels.tools[String(definition.name)]
    if (!given) throw new Error(`${name}: ${String(definition.name)} has no label`)
    return { ...given, definition }
  })
  const { server, version } = lists
  return { server, package: lists.package, ...(version !== undefined && { version }), tools }
}

/** The decisions of a judgement, without its texts. */
function decision(definition: Readonly<Record<string, unknown>>, context: Context) {
  const { effect, baseEffect, conditions, dryRun } = judge(definition, context)
  return {
    effect,
    baseEffect,
    dryRun,
    conditions: conditions.map(({ effect: worst, when }) => ({ worst, when })),
  }
}

function write(server: LabelledServer, target: string): void {
  const tools = server.tools.map(({ definition, ...label }) => {
    const reduced = reducedTool(definition)
    for (const isTrusted of [true, false]) {
      const context = { server: server.server, isTrusted }
      if (isDeepStrictEqual(decision(definition, context), decision(reduced, context))) continue
      throw new Error(`${server.server} ${String(definition.name)} is judged otherwise when it is reduced`)
    }
    return { ...label, definition: reduced }
  })
  mkdirSync(target, { recursive: true })
  writeFileSync(join(target, `${server.server}.json`), JSON.stringify({ ...server, tools }) + '\n')
}
