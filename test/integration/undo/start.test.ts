import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'

const memory = JSON.stringify(publishedServer('@modelcontextprotocol/server-memory'))

/** A configuration of server-memory with these tool settings. */
function file(tools: string): string {
  const path = join(folder(), 'gateway.config.yaml')
  const text = `store: memory
upstreams:
  away: https://127.0.0.1:9
  graph:
    command: ${memory}
    tools:
${tools}
`
  writeFileSync(path, text)
  return path
}

const wrong = `      create_entities:
        undo: delete_entity(names=[])
      create_relations:
        undo: delete_relations(relation=$.args.relations)
      add_observations:
        undo:
          snapshot: delete_entities(entityNames=["x"])
          restore: add_observations(observations=$.args.observation)
          absent: none
      read_graph:
        op: write
        undo: delete_entities(entityNames=$.result.entities[0].name)
      delete_*:
        verify: open_nodes(names=$.args.entityNames) -> $.result.entity[0]`

describe('undo expressions that do not match the servers', () => {
  test.each([[['serve', '--port', '0']], [['check']]])(
    'keep gatehouse %j from starting or passing',
    async (command) => {
      const path = file(wrong)
      const { code, stderr } = await runCommand([...command, '--config', path])
      const lines = stderr
        .split('\n')
        .flatMap((line) => /gateway\.config\.yaml:(\d+:\d+ upstreams\.graph\..*)$/.exec(line)?.[1] ?? [])
      expect(lines).toEqual([
        '8:15 upstreams.graph.tools.create_entities.undo: graph has no tool delete_entity; did you mean delete_entities?',
        '10:15 upstreams.graph.tools.create_relations.undo: delete_relations requires relations, which is missing',
        '10:15 upstreams.graph.tools.create_relations.undo: delete_relations takes no relation; did you mean relations?',
        expect.stringContaining(
          '13:21 upstreams.graph.tools.add_observations.undo.snapshot: delete_entities is called to read, but is not classified as read-only',
        ),
        '14:20 upstreams.graph.tools.add_observations.undo.restore: add_observations has no $.args.observation; did you mean observations?',
        '18:15 upstreams.graph.tools.read_graph.undo: entityNames of delete_entities must be array of string, but $.result.entities[0].name of read_graph is string',
        '20:17 upstreams.graph.tools["delete_*"].verify: delete_observations has no $.args.entityNames; there is deletions',
        '20:17 upstreams.graph.tools["delete_*"].verify: delete_relations has no $.args.entityNames; there is relations',
        '20:17 upstreams.graph.tools["delete_*"].verify: open_nodes has no $.result.entity[0]; there are entities, relations',
      ])
      expect(code).toBe(1)
    },
  )
})
