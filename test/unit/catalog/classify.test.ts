import { describe, expect, it } from 'vitest'
import { classify } from '../../../src/catalog/classify.ts'
import type { Classification } from '../../../src/core/descriptor.ts'
import type { UpstreamSettings } from '../../../src/core/settings.ts'
import { serverSettings } from '../../support/server-settings.ts'

type Hints = Readonly<Record<string, boolean>>

function short({ op, risk, idempotent }: Classification): string {
  return `${op} ${risk}${idempotent ? ' idempotent' : ''}`
}

function natureOf(name: string, annotations?: Hints, given: Partial<UpstreamSettings> = {}): Classification {
  return classify({ name, ...(annotations && { annotations }) }, serverSettings(given))
}

const reads = { readOnlyHint: true, destructiveHint: false, idempotentHint: true }
const acts = { readOnlyHint: false, destructiveHint: false, idempotentHint: false }
const files = { readOnlyHint: true }
const deletes = { readOnlyHint: false, destructiveHint: true, idempotentHint: true }

describe('the tools of published servers', () => {
  it.each([
    ['everything', 'echo', reads, 'read safe idempotent'],
    ['everything', 'get-annotated-message', reads, 'read safe idempotent'],
    ['everything', 'get-env', reads, 'read safe idempotent'],
    ['everything', 'get-resource-links', reads, 'read safe idempotent'],
    ['everything', 'get-resource-reference', reads, 'read safe idempotent'],
    ['everything', 'get-structured-content', reads, 'read safe idempotent'],
    ['everything', 'get-sum', reads, 'read safe idempotent'],
    ['everything', 'get-tiny-image', reads, 'read safe idempotent'],
    ['everything', 'get-roots-list', reads, 'read safe idempotent'],
    ['everything', 'gzip-file-as-resource', { ...acts, idempotentHint: true }, 'write reversible idempotent'],
    ['everything', 'toggle-simulated-logging', acts, 'write reversible'],
    ['everything', 'toggle-subscriber-updates', acts, 'write reversible'],
    ['everything', 'trigger-long-running-operation', reads, 'read safe idempotent'],
    ['everything', 'trigger-elicitation-request', acts, 'write reversible'],
    ['everything', 'trigger-sampling-request', acts, 'write reversible'],
    ['everything', 'simulate-research-query', acts, 'write reversible'],
    ['files', 'read_file', files, 'read safe idempotent'],
    ['files', 'read_text_file', files, 'read safe idempotent'],
    ['files', 'read_media_file', files, 'read safe idempotent'],
    ['files', 'read_multiple_files', files, 'read safe idempotent'],
    ['files', 'write_file', deletes, 'write destructive idempotent'],
    ['files', 'edit_file', { ...deletes, idempotentHint: false }, 'write destructive'],
    ['files', 'create_directory', { ...acts, idempotentHint: true }, 'write reversible idempotent'],
    ['files', 'list_directory', files, 'read safe idempotent'],
    ['files', 'list_directory_with_sizes', files, 'read safe idempotent'],
    ['files', 'directory_tree', files, 'read safe idempotent'],
    ['files', 'move_file', { ...deletes, idempotentHint: false }, 'write destructive'],
    ['files', 'search_files', files, 'read safe idempotent'],
    ['files', 'get_file_info', files, 'read safe idempotent'],
    ['files', 'list_allowed_directories', files, 'read safe idempotent'],
    ['memory', 'create_entities', acts, 'write reversible'],
    ['memory', 'create_relations', acts, 'write reversible'],
    ['memory', 'add_observations', acts, 'write reversible'],
    ['memory', 'delete_entities', deletes, 'delete destructive idempotent'],
    ['memory', 'delete_observations', deletes, 'delete destructive idempotent'],
    ['memory', 'delete_relations', deletes, 'delete destructive idempotent'],
    ['memory', 'read_graph', reads, 'read safe idempotent'],
    ['memory', 'search_nodes', reads, 'read safe idempotent'],
    ['memory', 'open_nodes', reads, 'read safe idempotent'],
  ] as const)('%s: %s', (server, tool, annotations, expected) => {
    expect(short(natureOf(tool, annotations, { name: server }))).toBe(expected)
  })
})

describe('the verb of a name', () => {
  it.each([
    ['get_user', 'read safe idempotent'],
    ['listIssues', 'read safe idempotent'],
    ['search-code', 'read safe idempotent'],
    ['issues.list', 'read safe idempotent'],
    ['createJiraIssue', 'write reversible'],
    ['GetHTTPStatus', 'read safe idempotent'],
    ['archive', 'write reversible'],
    ['delete_repository', 'delete destructive'],
    ['merge_pull_request', 'delete destructive'],
    ['overwrite', 'delete destructive'],
    ['transfer_money', 'write destructive'],
    ['grantAccess', 'admin destructive'],
    ['get_permission', 'read safe idempotent'],
    ['run_query', 'execute destructive'],
    ['getaway', 'write destructive'],
    ['', 'write destructive'],
  ])('%s: %s', (name, expected) => {
    expect(short(natureOf(name))).toBe(expected)
  })

  it.each([
    ['github', 'github_get_issue', 'read safe idempotent'],
    ['github', 'githubGetIssue', 'read safe idempotent'],
    ['google-maps', 'google_maps_search_places', 'read safe idempotent'],
    ['google-maps', 'google-maps.delete-place', 'delete destructive'],
    ['search', 'search', 'read safe idempotent'],
    ['delete', 'delete', 'delete destructive'],
    ['git', 'github_get_issue', 'read safe idempotent'],
  ])('is looked for behind the name of the server %s: %s', (name, tool, expected) => {
    expect(short(natureOf(tool, undefined, { name }))).toBe(expected)
  })
})

describe('what a server says of its tools', () => {
  it.each([
    [{ readOnlyHint: true }, 'delete destructive'],
    [{ destructiveHint: false }, 'delete destructive'],
    [{ idempotentHint: true }, 'delete destructive idempotent'],
  ])('never talks away a verb that destroys: delete_x with %o is %s', (hints, expected) => {
    expect(short(natureOf('delete_x', hints))).toBe(expected)
  })

  it.each([
    ['frob', { readOnlyHint: true }, 'read safe idempotent'],
    ['clear_filter', { destructiveHint: false }, 'write reversible'],
    ['frob', { destructiveHint: false }, 'write reversible'],
    ['create_x', { idempotentHint: true }, 'write reversible idempotent'],
  ])(
    'is believed of a trusted one where nothing plain contradicts it: %s with %o is %s',
    (name, hints, expected) => {
      expect(short(natureOf(name, hints))).toBe(expected)
    },
  )

  it.each([
    ['power-off-machine', {}, 'delete destructive'],
    ['power_cycle', {}, 'delete destructive'],
    ['cluster_upgrade_version', {}, 'delete destructive'],
    ['reset_user_password', {}, 'write destructive'],
    ['disable_backups', {}, 'write destructive'],
    ['forward_event', {}, 'write destructive'],
    ['respond-to-event', {}, 'write destructive'],
  ])(
    'does not talk away what stops, locks out, unguards or tells people: %s is %s',
    (name, hints, expected) => {
      expect(short(natureOf(name, { ...hints, destructiveHint: false }))).toBe(expected)
    },
  )

  it.each([
    ['get_power_state', 'read safe idempotent'],
    ['check_for_upgrade', 'read safe idempotent'],
    ['get_reset_password_policy', 'read safe idempotent'],
    ['download_to_file', 'write reversible'],
  ])('reads what its server says it reads, but files it writes: %s is %s', (name, expected) => {
    expect(short(natureOf(name, { readOnlyHint: true }))).toBe(expected)
  })

  it.each([
    ['create_x', { readOnlyHint: false }, 'write destructive'],
    ['hover', { readOnlyHint: false }, 'write reversible'],
    ['hover', { readOnlyHint: false, destructiveHint: true }, 'write reversible'],
  ])(
    'is read with the defaults of the protocol for what is absent: %s with %o is %s',
    (name, hints, expected) => {
      expect(short(natureOf(name, hints))).toBe(expected)
    },
  )

  it.each([
    ['delete_x', { readOnlyHint: true }, 'delete destructive'],
    ['delete_x', { destructiveHint: false }, 'delete destructive'],
    ['delete_x', { idempotentHint: true }, 'delete destructive'],
    ['frob', { readOnlyHint: true }, 'write destructive'],
    ['get_x', { destructiveHint: true }, 'write destructive'],
    ['get_x', { readOnlyHint: true, destructiveHint: true }, 'write destructive'],
    ['get_x', { readOnlyHint: false }, 'write reversible'],
    ['get_x', { idempotentHint: false }, 'read safe'],
    ['create_x', { destructiveHint: true }, 'write destructive'],
  ])('only makes it more of a risk where it is not trusted: %s with %o is %s', (name, hints, expected) => {
    expect(short(natureOf(name, hints, { trust: false }))).toBe(expected)
  })

  it('does not count where it says nothing: the default of the protocol would make every tool destructive', () => {
    expect(short(natureOf('create_x', {}))).toBe('write reversible')
  })

  it('is named among the evidence where it is not believed', () => {
    const { evidence } = natureOf('delete_x', { readOnlyHint: true }, { trust: false })
    expect(evidence).toContain('its server says readOnlyHint: true, which is ignored (trust is off)')
  })
})

describe('what the configuration says of a tool', () => {
  it('goes before everything else', () => {
    const tools = { 'delete_*': { op: 'read', idempotent: false } } as const
    expect(short(natureOf('delete_x', { destructiveHint: true }, { tools }))).toBe('read safe')
  })

  it('is what the most specific glob says, for each setting', () => {
    const tools = {
      '*': { risk: 'destructive', op: 'admin' },
      'get_*': { op: 'write' },
      get_x: { idempotent: true },
    } as const
    expect(short(natureOf('get_x', undefined, { tools }))).toBe('write destructive idempotent')
    expect(short(natureOf('frob', undefined, { tools }))).toBe('admin destructive')
  })

  it('tells which glob said it', () => {
    const { evidence } = natureOf('get_x', undefined, { tools: { 'get_*': { risk: 'destructive' } } })
    expect(evidence).toEqual(['the configuration sets risk: destructive for get_*', 'its name says "get"'])
  })
})
