/**
 * Adds to a pack of `src/core/judgement/packs` the hashes of the definitions that a server lists.
 *
 *   node scripts/write-packs.ts PACK LIST…
 *
 * PACK is the file of a pack, each LIST a file with `tools`: the entries of `tools/list` of one version. Review the
 * definitions of a new version first: the pack applies to every definition with a listed hash. Packs with proofs are
 * written by `gatehouse prove` (docs/proofs.md).
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { definitionHash, type Pack } from '../src/core/pack.ts'

const [file = '', ...lists] = process.argv.slice(2)
const pack: Pack = JSON.parse(readFileSync(file, 'utf8'))
const listed = lists.flatMap((list) => {
  const { tools }: { tools: readonly Readonly<Record<string, unknown>>[] } = JSON.parse(
    readFileSync(list, 'utf8'),
  )
  return tools
})
const tools = Object.entries(pack.tools).map(([name, tool]) => {
  const found = listed.filter((definition) => definition['name'] === name).map(definitionHash)
  return [name, { ...tool, definitions: [...new Set([...tool.definitions, ...found])].toSorted() }]
})
writeFileSync(file, `${JSON.stringify({ ...pack, tools: Object.fromEntries(tools) }, null, 2)}\n`)
