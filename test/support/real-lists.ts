import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import type { EntryDefinition } from '../../src/core/descriptor.ts'
import { publishedServer } from './peers/servers.ts'

/** What a published server says of itself and lists. */
export interface RealLists {
  readonly info: EntryDefinition
  readonly instructions: string | undefined
  readonly capabilities: EntryDefinition
  readonly tools: readonly EntryDefinition[]
  readonly prompts: readonly EntryDefinition[]
  readonly resources: readonly EntryDefinition[]
  readonly templates: readonly EntryDefinition[]
}

/** Starts a published server, asks for its lists, and ends it. */
export async function realLists(name: string, ...args: string[]): Promise<RealLists> {
  const [command = '', ...rest] = publishedServer(`@modelcontextprotocol/${name}`, ...args)
  const client = new Client({ name: 'lister', version: '1.0.0' }, { capabilities: {} })
  await client.connect(new StdioClientTransport({ command, args: rest, stderr: 'ignore' }))
  try {
    const capabilities = client.getServerCapabilities() ?? {}
    const { tools } = await client.listTools()
    const { prompts } = capabilities.prompts ? await client.listPrompts() : { prompts: [] }
    const { resources } = capabilities.resources ? await client.listResources() : { resources: [] }
    const { resourceTemplates } = capabilities.resources
      ? await client.listResourceTemplates()
      : { resourceTemplates: [] }
    return {
      info: { ...client.getServerVersion() },
      instructions: client.getInstructions(),
      capabilities,
      tools,
      prompts,
      resources,
      templates: resourceTemplates,
    }
  } finally {
    await client.close()
  }
}
