import { Journal } from './journal.ts'
import type { Json } from './json.ts'
import type { ServerOptions } from './options.ts'
import { type Traits, traitsOf } from './revisions.ts'

/** The URI of the resource whose changes can be watched. */
export const watchedUri = 'fake://watched'

/** What can change in the server. */
export type Changing = 'tools' | 'prompts' | 'resources' | 'watched'

/** A change as the notification that tells of it. */
export interface Change {
  readonly what: Changing
  readonly method: string
  readonly params?: Json
}

const changes: Readonly<Record<Changing, Change>> = {
  tools: { what: 'tools', method: 'notifications/tools/list_changed' },
  prompts: { what: 'prompts', method: 'notifications/prompts/list_changed' },
  resources: { what: 'resources', method: 'notifications/resources/list_changed' },
  watched: { what: 'watched', method: 'notifications/resources/updated', params: { uri: watchedUri } },
}

/** A client's interest in changes. */
export interface Listener {
  heard(change: Change): void
  end(): void
}

/** What all connections of one fake server share. */
export class World {
  readonly options: ServerOptions
  readonly traits: Traits
  readonly journal: Journal
  readonly listeners = new Set<Listener>()
  /** How often the tools changed; each time one more tool is listed. */
  toolChanges = 0

  constructor(options: ServerOptions) {
    this.options = options
    this.traits = traitsOf(options.revision)
    this.journal = new Journal(options.seenFile)
  }

  /** Changes something and tells everyone who listens. */
  change(what: Changing): void {
    if (what === 'tools') this.toolChanges++
    for (const listener of [...this.listeners]) listener.heard(changes[what])
  }

  /** Ends every subscription of a 2026-07-28 client in good order. */
  endListening(): void {
    for (const listener of [...this.listeners]) listener.end()
  }

  /** The name and version of the server, with the fields its revision knows. */
  info(): Json {
    return {
      name: 'fake-server',
      ...(this.traits.titles && { title: 'Fake server' }),
      version: '1.0.0',
      ...(this.traits.icons && { websiteUrl: 'https://example.com/' }),
    }
  }

  /** The capabilities of the server, without those its options take away. */
  capabilities(): Json {
    const lacks = (name: string) => this.options.without?.includes(name) ?? false
    const { completions } = this.traits
    return {
      ...(!lacks('tools') && { tools: { listChanged: !lacks('tools.listChanged') } }),
      ...(!lacks('prompts') && { prompts: { listChanged: !lacks('prompts.listChanged') } }),
      ...(!lacks('resources') && {
        resources: {
          listChanged: !lacks('resources.listChanged'),
          subscribe: !lacks('resources.subscribe'),
        },
      }),
      ...(!lacks('logging') && { logging: {} }),
      ...(completions && !lacks('completions') && { completions: {} }),
      experimental: { 'com.example/fake': { level: 1 } },
    }
  }
}
