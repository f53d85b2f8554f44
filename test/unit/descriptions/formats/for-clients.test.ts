// The documents speak to clients of the gateway, not to whoever runs the server behind it.
import { describe, expect, test } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import {
  agentBriefing,
  agentPrompt,
  helpOf,
  helpText,
  llmsFullText,
  llmsText,
} from '../../../../src/descriptions/formats/help.ts'
import { serverObject } from '../../../../src/descriptions/formats/dashdash.ts'
import { manifestOf, registryEntry, serverCard } from '../../../../src/descriptions/formats/manifest.ts'
import { skillOf } from '../../../../src/descriptions/formats/skill.ts'
import type { ServerDescription } from '../../../../src/descriptions/model/description.ts'
import {
  describedServer,
  describedServers,
  fullFront,
  type Given,
} from '../../../support/described-server.ts'

const reach = {
  kind: 'command',
  command: 'npx',
  args: ['-y', '@acme/mcp-server'],
  env: { ACME_API_KEY: new Secret('sesame-0123456789') },
} as const
const server = (given: Given = {}) => describedServer({ ...given, settings: { reach } })
const url = 'http://127.0.0.1:8900/mcp'

const formats: Readonly<Record<string, (server: ServerDescription) => unknown>> = {
  'the guide': helpText,
  'the guide as JSON': (each) => helpOf(each, { format: 'json' }),
  'the server object': serverObject,
  'the registry entry': registryEntry,
  'the server card': serverCard,
  'the manifest': manifestOf,
  'llms.txt': llmsText,
  'llms-full.txt': llmsFullText,
  'the skill': skillOf,
  'the briefing': agentBriefing,
  'the instructions': agentPrompt,
}

test.each(Object.entries(formats))('%s says nothing of how the gateway runs the server', (_name, format) => {
  for (const front of [{}, fullFront]) {
    const text = JSON.stringify(format(server({ front })))
    for (const word of ['ACME_API_KEY', 'npx', '@acme', 'npm install']) expect(text).not.toContain(word)
  }
})

describe('what a client installs and needs', () => {
  test('is the URL or the bridge, and a token if callers are authenticated', () => {
    expect(serverObject(server())).toMatchObject({
      install: { url, stdio: `gatehouse stdio --gateway-key auto ${url}` },
    })
    expect(serverObject(server())).not.toHaveProperty('requires')
    expect(serverObject(server({ front: fullFront }))).toMatchObject({
      install: { url, stdio: `gatehouse stdio --gateway-key auto --token-env GATEHOUSE_TOKEN ${url}` },
      requires: { auth: ['bearer-token'] },
    })
    const auth = { methods: ['oauth2_code', 'bearer_token'] } as const
    expect(serverObject(server({ front: { auth } }))).toMatchObject({
      requires: { auth: ['oauth2', 'bearer-token'] },
    })
  })

  test('is the command alone where the gateway does not listen for HTTP', () => {
    const { endpoint: _endpoint, ...front } = server().front
    const offline = { ...server(), front }
    expect(registryEntry(offline)).toMatchObject({ install: { stdio: 'gatehouse stdio' } })
    expect(helpText(offline)).not.toContain('takes no URLs')
  })

  test('is a token for several servers together too', () => {
    const all = describedServers([{ record: { name: 'one' } }, { record: { name: 'two' } }], fullFront)
    expect(serverObject(all)).toMatchObject({ requires: { auth: ['bearer-token'] }, install: { url } })
  })

  test('is the same in the guide', () => {
    const text = helpText(server({ front: fullFront }))
    expect(text).toContain(`"url": "${url}"`)
    expect(text).toContain('Bearer <your token>')
    expect(text).toContain(`A client that takes no URLs starts \`gatehouse stdio --gateway-key auto`)
  })
})
