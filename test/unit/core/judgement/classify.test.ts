import { describe, expect, it } from 'vitest'
import { classify } from '../../../../src/core/judgement/classify.ts'
import type { Classification } from '../../../../src/core/descriptor.ts'
import type { UpstreamSettings } from '../../../../src/core/settings.ts'
import { serverSettings } from '../../../support/server-settings.ts'

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

describe('classification of published tools', () => {
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
  ] as const)('tool %s is classified: %s', (server, tool, annotations, expected) => {
    expect(short(natureOf(tool, annotations, { name: server }))).toBe(expected)
  })
})

describe('classification by the verb of a tool name', () => {
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
  ])('tool name %s is classified: %s', (name, expected) => {
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
  ])('the verb is found behind the server name as prefix %s: %s', (name, tool, expected) => {
    expect(short(natureOf(tool, undefined, { name }))).toBe(expected)
  })
})

describe('classification by annotations of the server', () => {
  it.each([
    [{ readOnlyHint: true }, 'delete destructive'],
    [{ destructiveHint: false }, 'delete destructive'],
    [{ idempotentHint: true }, 'delete destructive idempotent'],
  ])('annotations never outweigh a destructive verb: delete_x with %o is %s', (hints, expected) => {
    expect(short(natureOf('delete_x', hints))).toBe(expected)
  })

  it.each([
    ['frob', { readOnlyHint: true }, 'read safe idempotent'],
    ['clear_filter', { destructiveHint: false }, 'write reversible'],
    ['frob', { destructiveHint: false }, 'write reversible'],
    ['create_x', { idempotentHint: true }, 'write reversible idempotent'],
  ])(
    'annotations of a trusted server apply unless stronger evidence contradicts them: %s with %o is %s',
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
    'annotations never outweigh verbs that stop, lock out, unprotect or notify: %s is %s',
    (name, hints, expected) => {
      expect(short(natureOf(name, { ...hints, destructiveHint: false }))).toBe(expected)
    },
  )

  it.each([
    ['get_power_state', 'read safe idempotent'],
    ['check_for_upgrade', 'read safe idempotent'],
    ['get_reset_password_policy', 'read safe idempotent'],
    ['download_to_file', 'write reversible'],
  ])(
    'readOnlyHint applies to names that only mention a change, but not to tools that write files: %s is %s',
    (name, expected) => {
      expect(short(natureOf(name, { readOnlyHint: true }))).toBe(expected)
    },
  )

  it.each([
    ['create_x', { readOnlyHint: false }, 'write destructive'],
    ['hover', { readOnlyHint: false }, 'write reversible'],
    ['hover', { readOnlyHint: false, destructiveHint: true }, 'write reversible'],
  ])(
    'absent annotations have the defaults of the specification: %s with %o is %s',
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
  ])(
    'annotations of an untrusted server can only raise the risk: %s with %o is %s',
    (name, hints, expected) => {
      expect(short(natureOf(name, hints, { trust: false }))).toBe(expected)
    },
  )

  it('a tool without annotations is not destructive, although the default of the specification says so', () => {
    expect(short(natureOf('create_x', {}))).toBe('write reversible')
  })

  it('a rejected annotation is listed in the evidence', () => {
    const { evidence } = natureOf('delete_x', { readOnlyHint: true }, { trust: false })
    expect(evidence).toContain('its server says readOnlyHint: true, which is ignored (trust is off)')
  })
})

describe('classification by configuration', () => {
  it('configuration has precedence over all other evidence', () => {
    const tools = { 'delete_*': { op: 'read', idempotent: false } } as const
    expect(short(natureOf('delete_x', { destructiveHint: true }, { tools }))).toBe('read safe')
  })

  it('the most specific glob wins for each setting', () => {
    const tools = {
      '*': { risk: 'destructive', op: 'admin' },
      'get_*': { op: 'write' },
      get_x: { idempotent: true },
    } as const
    expect(short(natureOf('get_x', undefined, { tools }))).toBe('write destructive idempotent')
    expect(short(natureOf('frob', undefined, { tools }))).toBe('admin destructive')
  })

  it('the evidence names the glob that set the classification', () => {
    const { evidence } = natureOf('get_x', undefined, { tools: { 'get_*': { risk: 'destructive' } } })
    expect(evidence).toEqual(['the configuration sets risk: destructive for get_*', 'its name says "get"'])
  })
})
