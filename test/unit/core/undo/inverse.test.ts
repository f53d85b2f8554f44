import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isSure, proposeUndo } from '../../../../src/core/undo/inverse.ts'
import { type Proposal } from '../../../../src/core/undo/restore.ts'
import { readUndo } from '../../../../src/core/undo/rules.ts'

type Properties = Readonly<Record<string, unknown>>
type Definition = Readonly<Record<string, unknown>>

const text = { type: 'string' }
const number = { type: 'integer' }
const texts = { type: 'array', items: text }

/** A tool whose arguments are required, except those with a question mark. */
function tool(name: string, inputs: Properties, outputs?: Properties): Definition {
  return { name, inputSchema: object(inputs), ...(outputs && { outputSchema: object(outputs) }) }
}

function object(fields: Properties): Definition {
  const entries = Object.entries(fields)
  const required = entries.flatMap(([name]) => (name.endsWith('?') ? [] : [name]))
  return {
    type: 'object',
    properties: Object.fromEntries(entries.map(([name, schema]) => [name.replace('?', ''), schema])),
    required,
  }
}

function proposalOf(one: Definition, ...others: readonly Definition[]): Proposal | undefined {
  return proposeUndo(one, [one, ...others]).proposal
}

function undoOf(one: Definition, ...others: readonly Definition[]): unknown {
  return proposalOf(one, ...others)?.undo
}

function missesOf(one: Definition, ...others: readonly Definition[]): readonly string[] {
  return proposeUndo(one, [one, ...others]).misses
}

const id = { id: text }

describe('undo proposals by tools with opposite names', () => {
  test.each([
    ['create_link', 'delete_link'],
    ['createLink', 'removeLink'],
    ['add-link', 'remove-link'],
    ['links_create', 'links_delete'],
    ['insert_row', 'delete_row'],
    ['upload_asset', 'delete_asset'],
    ['register_hook', 'deregister_hook'],
    ['add_comment_to_issue', 'remove_comment_from_issue'],
    ['API-create-a-page', 'API-delete-a-page'],
    ['github_create_release', 'github_delete_release'],
  ])('%s is undone by %s with certainty, using the id from the result', (one, other) => {
    const proposal = proposalOf(tool(one, { title: text }, id), tool(other, id))
    expect(proposal).toMatchObject({ undo: `${other}(id=$.result.id)`, caveats: [] })
  })

  test.each([
    ['link_issue', 'unlink_issue'],
    ['start_machine', 'stop_machine'],
    ['stop_machine', 'start_machine'],
    ['enable_rule', 'disable_rule'],
    ['lock_topic', 'unlock_topic'],
    ['unlock_topic', 'lock_topic'],
    ['subscribe_topic', 'unsubscribe_topic'],
    ['archive_page', 'restore_page'],
    ['archive_page', 'unarchive_page'],
    ['close_issue', 'reopen_issue'],
    ['open_door', 'close_door'],
    ['assign_task', 'unassign_task'],
    ['grant_role', 'revoke_role'],
    ['publish_post', 'unpublish_post'],
    ['delete_note', 'restore_note'],
    ['install_chart', 'uninstall_chart'],
    ['add_label_to_issue', 'remove_label_from_issue'],
    ['upload_file', 'delete_file'],
  ])('%s is undone by %s with a doubt: the state may have been the same before', (one, other) => {
    const proposal = proposalOf(
      tool(one, { path: text, label: text }),
      tool(other, { path: text, label: text }),
    )
    expect(proposal?.undo).toBe(`${other}(path=$.args.path, label=$.args.label)`)
    expect(proposal?.caveats).toContainEqual(expect.stringContaining('before'))
  })

  test.each([
    ['a different noun', 'create_issue', 'delete_branch'],
    ['a verb without an opposite', 'create_issue', 'comment_issue'],
    ['additional nouns', 'create_issue', 'delete_issue_comment'],
    ['the same verb', 'add_user', 'add_users'],
  ])('no undo is proposed for %s', (_why, one, other) => {
    expect(undoOf(tool(one, { path: text }, id), tool(other, id))).toBeUndefined()
  })

  test('a read-only tool needs no undo and undoes nothing', () => {
    const hinted = { ...tool('create_view', { path: text }), annotations: { readOnlyHint: true } }
    expect(undoOf(hinted, tool('delete_view', { path: text }))).toBeUndefined()
    expect(undoOf(tool('delete_view', { path: text }), hinted)).toBeUndefined()
  })

  test('a deletion is undone approximately by creation if every argument is known', () => {
    const made = tool('create_relation', { from: text, to: text })
    const proposal = proposalOf(tool('delete_relation', { from: text, to: text }), made)
    expect(proposal?.undo).toEqual({ call: 'create_relation(from=$.args.from, to=$.args.to)', exact: false })
    expect(proposal?.caveats).toEqual([
      'the removed object may have had more content than the arguments contain',
    ])
    const more = tool('create_relation', { from: text, to: text, 'note?': text })
    expect(undoOf(tool('delete_relation', { from: text, to: text }), more)).toBeUndefined()
  })
})

describe('undo proposals never affect anything the call did not create', () => {
  const place = { connectionId: text, database: text, collection: text }
  const object_ = { type: 'object' }

  test('a bulk insert is not undone by deleting everything', () => {
    const insert = tool(
      'insert-many',
      { ...place, documents: { type: 'array', items: object_ } },
      { database: text, collection: text, insertedCount: number, insertedIds: { type: 'array' } },
    )
    const remove = tool('delete-many', { ...place, 'filter?': object_ })
    expect(undoOf(insert, remove)).toBeUndefined()
    expect(missesOf(insert, remove)).toEqual([
      'delete-many affects everything that matches filter, and nothing identifies what insert-many affected',
    ])
  })

  test.each([
    ['no arguments', { title: text }, {}],
    ['only the location', { board: text, title: text }, { board: text }],
    ['only the parent', { issue_id: text, body: text }, { issue_id: text }],
    ['an optional filter', { title: text, name: text }, { 'filter?': object_ }],
    ['a query shared with the original call', { board: text, query: text }, { board: text, query: text }],
  ])('a creation is not undone by a call with %s', (_what, inputs, others) => {
    const [create, remove] = [tool('create_card', inputs), tool('delete_card', others)]
    expect(undoOf(create, remove)).toBeUndefined()
    expect(missesOf(create, remove)[0]).toMatch(/nothing identifies/)
  })

  test('a comment on an issue is not identified by the issue', () => {
    const create = tool('create_comment_on_issue', { issue_number: number, body: text })
    const remove = tool('delete_comment_on_issue', { issue_number: number })
    expect(undoOf(create, remove)).toBeUndefined()
  })

  test('the creation of several items is not undone by deleting one', () => {
    const create = tool('create_cards', { names: texts }, { id: text })
    expect(undoOf(create, tool('delete_cards', { id: text }))).toBeUndefined()
  })

  test('a switch without a required target is not reverted', () => {
    expect(
      undoOf(tool('enable_rule', { 'mode?': text }), tool('disable_rule', { 'mode?': text })),
    ).toBeUndefined()
    expect(proposalOf(tool('open_door', {}), tool('close_door', {}))).toMatchObject({ undo: 'close_door()' })
  })

  test('a bulk move is not reverted, because other items may have been there before', () => {
    const moved = tool('move_emails', { from_folder: text, to_folder: text })
    expect(undoOf(moved)).toBeUndefined()
    expect(undoOf(tool('move_stock', { from_id: text, to_id: text, amount: number }))).toBeUndefined()
  })
})

describe('certain and doubtful undo proposals', () => {
  const create = tool('create_issue', { title: text }, { id: text })

  test('an id declared in the output schema is certain', () => {
    expect(proposalOf(create, tool('delete_issue', { 'id?': text }))).toMatchObject({
      undo: 'delete_issue(id=$.result.id)',
      caveats: [],
    })
  })

  test('an optional id in the output schema is doubtful', () => {
    const proposal = proposalOf(
      tool('create_issue', { title: text }),
      tool('delete_issue', { 'issue_id?': text }),
    )
    expect(proposal?.undo).toBe('delete_issue(issue_id=$.result.id)')
    expect(proposal?.caveats).toEqual([expect.stringContaining('there is no outputSchema')])
  })

  test.each(['filter', 'where', 'query', 'conditions', 'selector', 'ids', 'name', 'namespace', 'mode'])(
    'an omitted optional %s is doubtful',
    (name) => {
      const proposal = proposalOf(create, tool('delete_issue', { id: text, [`${name}?`]: text }))
      expect(proposal?.undo).toBe('delete_issue(id=$.result.id)')
      expect(proposal?.caveats).toEqual([
        `delete_issue is called without ${name}, which may change what it affects`,
      ])
    },
  )

  test.each([
    'all',
    'force',
    'recursive',
    'cascade',
    'allNamespaces',
    'include_children',
    'dryRun',
    'dry_run',
  ])('a boolean %s is set to false', (name) => {
    for (const end of ['', '?']) {
      const switchable = tool('delete_issue', { id: text, [`${name}${end}`]: { type: 'boolean' } })
      expect(proposalOf(create, switchable)).toMatchObject({
        undo: `delete_issue(id=$.result.id, ${name}=false)`,
        caveats: [],
      })
    }
  })

  test.each(['comment', 'reason', 'notify', 'timeout_ms'])('an optional %s may be omitted', (name) => {
    expect(proposalOf(create, tool('delete_issue', { id: text, [`${name}?`]: text }))?.caveats).toEqual([])
  })

  test.each<[string, Definition, Definition]>([
    ['of something that may exist already', { annotations: { idempotentHint: true } }, {}],
    ['that may replace', { description: 'Creates an issue, or replaces it.' }, {}],
    ['that may update', { description: 'Create or update an issue.' }, {}],
    ['that is conditional on absence', { description: 'Creates it if it does not exist.' }, {}],
    ['whose deletion takes more', {}, { description: 'Deletes an issue and its comments.' }],
  ])('a creation %s is doubtful', (_what, one, other) => {
    const proposal = proposalOf({ ...create, ...one }, { ...tool('delete_issue', { id: text }), ...other })
    expect(proposal?.undo).toBe('delete_issue(id=$.result.id)')
    expect(proposal?.caveats).toHaveLength(1)
  })

  test('a creation with an overwrite switch is doubtful', () => {
    const upsert = tool('create_issue', { title: text, 'overwrite?': { type: 'boolean' } }, { id: text })
    expect(proposalOf(upsert, tool('delete_issue', { id: text }))?.caveats).toHaveLength(1)
  })

  test.each(['folder', 'directory', 'database', 'table', 'collection', 'project', 'branch'])(
    'a %s may contain items added since, unless only an empty one can be deleted',
    (noun) => {
      const made = tool(`create_${noun}`, { name: text }, { id: text })
      expect(proposalOf(made, tool(`delete_${noun}`, { id: text }))?.caveats).toHaveLength(1)
      const careful = tool(`delete_${noun}`, { id: text, 'recursive?': { type: 'boolean' } })
      expect(proposalOf(made, careful)).toMatchObject({
        undo: `delete_${noun}(id=$.result.id, recursive=false)`,
        caveats: [],
      })
    },
  )

  test('a key chosen by the caller is certain if it is passed completely', () => {
    const made = tool('create_secret', { vault: text, name: text, value: text })
    expect(proposalOf(made, tool('delete_secret', { vault: text, name: text }))).toMatchObject({
      undo: 'delete_secret(vault=$.args.vault, name=$.args.name)',
      caveats: [],
    })
    expect(proposalOf(made, tool('delete_secret', { name: text }))?.caveats).toEqual([
      'delete_secret is called without vault, which create_secret takes',
    ])
    const added = tool('add_secret', { name: text })
    expect(proposalOf(added, tool('remove_secret', { name: text }))?.caveats).toHaveLength(1)
  })

  test('an id among the arguments may belong to something else', () => {
    const made = tool('create_comment', { id: text, body: text })
    expect(proposalOf(made, tool('delete_comment', { comment_id: text }))?.caveats).toEqual([
      'id of create_comment may identify another object',
    ])
  })

  test('a list of names chosen by the caller is doubtful, because some may have existed', () => {
    const made = tool('create_secrets', { names: texts })
    const proposal = proposalOf(made, tool('delete_secrets', { names: texts }))
    expect(proposal?.undo).toBe('delete_secrets(names=$.args.names)')
    expect(proposal?.caveats).toHaveLength(1)
  })
})

describe('undo proposals match every required argument by name', () => {
  test('arguments match in any naming style', () => {
    const undo = undoOf(
      tool('create_card', { boardId: text, slug: text }),
      tool('delete_card', { board_id: text, slug: text }),
    )
    expect(undo).toBe('delete_card(board_id=$.args.boardId, slug=$.args.slug)')
  })

  test('the result is preferred if its schema declares what was created', () => {
    const relations = { type: 'array', items: object({ from: text, to: text }) }
    const proposal = proposalOf(
      tool('create_relations', { relations }, { relations }),
      tool('delete_relations', { relations }),
    )
    expect(proposal).toMatchObject({ undo: 'delete_relations(relations=$.result.relations)', caveats: [] })
  })

  test.each([
    ['id', { id: text }, '$.result.id'],
    ['issue_id', { id: text }, '$.result.id'],
    ['issueId', { issue_id: text }, '$.result.issue_id'],
    ['issue_number', { issue: object({ number: text }) }, '$.result.issue.number'],
  ])('%s is taken with certainty from a result with a schema', (wanted, outputs, path) => {
    const remove = tool('delete_issue', { [wanted]: text })
    const proposal = proposalOf(tool('create_issue', { title: text }, outputs), remove)
    expect(proposal).toMatchObject({ undo: `delete_issue(${wanted}=${path})`, caveats: [] })
    const maybe = Object.fromEntries(Object.entries(outputs).map(([name, schema]) => [`${name}?`, schema]))
    expect(proposalOf(tool('create_issue', { title: text }, maybe), remove)?.caveats).toEqual([
      expect.stringContaining('may be absent'),
    ])
  })

  test.each([
    ['id', '$.result.id'],
    ['issue_id', '$.result.id'],
    ['issueKey', '$.result.key'],
    ['issue_number', '$.result.number'],
  ])('%s is taken with a doubt from a result without a schema', (wanted, path) => {
    const proposal = proposalOf(
      tool('create_issue', { title: text }),
      tool('delete_issue', { [wanted]: text }),
    )
    expect(proposal?.undo).toBe(`delete_issue(${wanted}=${path})`)
    expect(proposal?.caveats).toHaveLength(1)
  })

  test('an id of another kind is not taken from the result', () => {
    expect(
      undoOf(tool('create_issue', { title: text }), tool('delete_issue', { id: text, project_id: text })),
    ).toBeUndefined()
  })

  test('a single value becomes a list of one', () => {
    expect(undoOf(tool('add_user', { name: text }), tool('remove_users', { names: texts }))).toBe(
      'remove_users(names=[$.args.name])',
    )
  })

  test('a value of a different type is not used', () => {
    expect(undoOf(tool('create_row', { name: number }), tool('delete_row', { name: text }))).toBeUndefined()
    expect(undoOf(tool('create_row', { name: texts }), tool('delete_row', { name: text }))).toBeUndefined()
  })

  test('an argument that may be absent is doubtful', () => {
    const proposal = proposalOf(tool('create_row', { 'name?': text }), tool('delete_row', { name: text }))
    expect(proposal?.undo).toBe('delete_row(name=$.args.name)')
    expect(proposal?.caveats).toEqual(['name of the arguments may be absent'])
  })

  test('a member is taken from each list item, preferably of the result', () => {
    const entities = { type: 'array', items: object({ name: text, kind: text }) }
    const remove = tool('delete_entities', { entityNames: texts })
    const asked = proposalOf(tool('create_entities', { entities }), remove)
    expect(asked?.undo).toBe('delete_entities(entityNames=$.args.entities[*].name)')
    expect(asked?.caveats).toEqual([expect.stringContaining('the caller chooses its identifier')])
    expect(proposalOf(tool('create_entities', { entities }, { entities }), remove)).toMatchObject({
      undo: 'delete_entities(entityNames=$.result.entities[*].name)',
      caveats: [],
    })
    const numbered = tool('delete_entities', { entityNames: { type: 'array', items: number } })
    expect(undoOf(tool('create_entities', { entities }), numbered)).toBeUndefined()
    const others = tool('delete_entities', { userNames: texts })
    expect(undoOf(tool('create_entities', { entities }), others)).toBeUndefined()
  })

  test('a tool whose schema does not list its arguments is not called', () => {
    const vague = { name: 'delete_row', inputSchema: { type: 'object', oneOf: [object({ at: text })] } }
    const suggestion = proposeUndo(tool('create_row', { at: text }), [vague])
    expect(suggestion).toMatchObject({ misses: [expect.stringContaining('does not list its arguments')] })
    expect(suggestion.proposal).toBeUndefined()
  })
})

describe('undo proposals for moves', () => {
  const fails = 'If the destination exists, the operation will fail.'

  test.each([
    ['source', 'destination'],
    ['from_path', 'to_path'],
    ['old_name', 'new_name'],
    ['path', 'newPath'],
  ])('a move is reverted by swapping %s and %s', (from, to) => {
    const move = { ...tool('move_file', { [from]: text, [to]: text }), description: fails }
    expect(proposalOf(move)).toMatchObject({
      undo: `move_file(${from}=$.args.${to}, ${to}=$.args.${from})`,
      caveats: [],
    })
  })

  test.each([
    undefined,
    'Moves a file.',
    'Fails if the destination does not exist.',
    'Fails if there is no source.',
  ])('a move that may replace its destination is doubtful: %j', (description) => {
    const move = { ...tool('move_file', { source: text, destination: text }), description }
    expect(proposalOf(move)?.caveats).toEqual(['move_file may replace an existing object at destination'])
  })

  test('the other arguments of a move are repeated', () => {
    expect(undoOf(tool('rename_branch', { repo: text, old_name: text, new_name: text }))).toBe(
      'rename_branch(repo=$.args.repo, old_name=$.args.new_name, new_name=$.args.old_name)',
    )
    expect(undoOf(tool('move_card', { card_id: text, from_list: text, to_list: text }))).toBe(
      'move_card(card_id=$.args.card_id, from_list=$.args.to_list, to_list=$.args.from_list)',
    )
  })

  test('an omitted optional argument of a move is doubtful, and its switches are set to false', () => {
    const move = (more: Properties): Definition => {
      return { ...tool('move_file', { source: text, destination: text, ...more }), description: fails }
    }
    expect(proposalOf(move({ 'drive?': text }))?.caveats).toHaveLength(1)
    const forced = proposalOf(move({ 'overwrite?': { type: 'boolean' } }))
    expect(forced?.undo).toMatch(/, overwrite=false\)$/)
    expect(forced?.caveats).toEqual(['with overwrite it may replace an existing object'])
  })

  test('a copy is not reverted by a move', () => {
    expect(undoOf(tool('copy_file', { source: text, destination: text }))).toBeUndefined()
  })
})

describe('undo proposals by snapshot and restore', () => {
  const write = tool('write_file', { path: text, content: text })
  const read = tool('read_text_file', { path: text, 'head?': number }, { content: text })

  test('a write is restored by the same tool', () => {
    expect(proposalOf(write, read)).toMatchObject({
      undo: {
        snapshot: 'read_text_file(path=$.args.path)',
        restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
        absent: 'none',
      },
      caveats: [],
    })
  })

  test('an edit is restored by another tool that writes', () => {
    const edit = tool('edit_file', { path: text, edits: texts, 'dryRun?': { type: 'boolean' } })
    expect(proposalOf(edit, read, write)).toMatchObject({
      undo: {
        snapshot: 'read_text_file(path=$.args.path)',
        restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
      },
      caveats: [],
    })
    const renaming = tool('update_file', { path: text, title: text, content: text })
    expect(proposalOf(renaming, read, write)?.caveats).toContain(
      'write_file may not restore what title changes',
    )
  })

  test('a file that did not exist is deleted if the deletion affects nothing else', () => {
    const remove = tool('delete_file', { path: text })
    expect(undoOf(write, read, remove)).toMatchObject({ absent: 'delete_file(path=$.args.path)' })
    const wide = tool('delete_file', { path: text, 'pattern?': text })
    expect(undoOf(write, read, wide)).toMatchObject({ absent: 'none' })
    const on = tool('write_file', { drive: text, path: text, content: text })
    const reading = tool('read_text_file', { drive: text, path: text }, { content: text })
    expect(undoOf(on, reading, remove)).toMatchObject({ absent: 'none' })
  })

  test('a deletion is undone approximately by writing the content again', () => {
    const proposal = proposalOf(tool('delete_file', { path: text }), read, write)
    expect(proposal?.undo).toEqual({
      exact: false,
      snapshot: 'read_text_file(path=$.args.path)',
      restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
    })
    expect(proposal?.caveats).toHaveLength(1)
  })

  test('a deprecated tool is proposed only as a last resort', () => {
    const old = { ...tool('read_file', { path: text }, { content: text }), description: 'DEPRECATED: …' }
    expect(undoOf(write, old, read)).toMatchObject({ snapshot: 'read_text_file(path=$.args.path)' })
    expect(undoOf(write, old)).toMatchObject({ snapshot: 'read_file(path=$.args.path)' })
  })

  test('every changeable field is restored, and fields that were not read are named', () => {
    const update = tool('update_issue', { id: text, 'title?': text, 'body?': text })
    const get = (outputs: Properties): Definition => tool('get_issue', { id: text }, outputs)
    expect(undoOf(update, get({ id: text, title: text, body: text }))).toEqual({
      snapshot: 'get_issue(id=$.args.id)',
      restore: 'update_issue(id=$.args.id, title=$.snapshot.title, body=$.snapshot.body)',
    })
    const proposal = proposalOf(update, get({ title: text }))
    expect(proposal).toMatchObject({ undo: { exact: false } })
    expect(proposal?.caveats).toEqual(['get_issue does not return the previous value of body'])
  })

  test('a boolean that is content is restored and not set to false', () => {
    const on = { type: 'boolean' }
    const update = tool('update_page', { id: text, force_https: on })
    const get = tool('get_page', { id: text }, { force_https: on })
    expect(undoOf(update, get)).toMatchObject({
      restore: 'update_page(id=$.args.id, force_https=$.snapshot.force_https)',
    })
    const partly = proposalOf(tool('update_page', { id: text, title: text, 'force_https?': on }), {
      ...tool('get_page', { id: text }, { title: text }),
    })
    expect(partly?.caveats).toEqual(['get_page does not return the previous value of force_https'])
  })

  test.each<[string, Definition, Definition]>([
    [
      'the read may be partial',
      tool('write_file', { path: text, content: text }),
      tool('read_file', { path: text, 'limit?': number }, { content: text }),
    ],
    [
      'the read may have another location',
      tool('write_file', { path: text, 'branch?': text, content: text }),
      tool('read_file', { path: text, 'branch?': text }, { content: text }),
    ],
    [
      'the read lacks an identifying argument',
      tool('write_file', { repo: text, path: text, content: text }),
      tool('read_file', { path: text }, { content: text, repo: text }),
    ],
    [
      'nothing identifies what is read',
      tool('update_cards', { status: text }),
      tool('get_cards', {}, { status: text }),
    ],
  ])('not for sure where %s', (_why, one, other) => {
    expect(proposalOf(one, other)?.caveats.length).toBeGreaterThan(0)
  })

  test('a bulk change is not restored from a read without its filter', () => {
    const update = tool('update_records', { table: text, data: text, 'where?': text })
    const get = tool('read_records', { table: text }, { data: text })
    expect(undoOf(update, get)).toBeUndefined()
    expect(missesOf(update, get)).toEqual([
      'update_records changes everything that matches where, and read_records does not read the same selection',
    ])
  })

  test('the whole output of a read is not restored into an object', () => {
    const put = tool('write_config', { path: text, data: { type: 'object' } })
    expect(undoOf(put, tool('read_config', { path: text }))).toBeUndefined()
  })

  test('no restore is proposed if the output of the read is undeclared', () => {
    const update = tool('update_issue', { id: text, 'title?': text })
    expect(undoOf(update, tool('get_issue', { id: text }))).toBeUndefined()
  })

  test('no restore is proposed if the read cannot be given its target', () => {
    expect(undoOf(write, tool('read_file', { handle: text }, { content: text }))).toBeUndefined()
  })
})

describe('undo proposals without a delete tool', () => {
  test('a created item is closed, which is approximate', () => {
    const update = tool('update_issue', {
      repo: text,
      issue_number: number,
      'state?': { enum: ['open', 'closed'] },
    })
    const proposal = proposalOf(tool('create_issue', { repo: text, title: text }), update)
    expect(proposal?.undo).toEqual({
      call: 'update_issue(repo=$.args.repo, issue_number=$.result.number, state="closed")',
      exact: false,
    })
    expect(proposal?.caveats[0]).toBe('no tool deletes what it creates, so it is only closed')
  })
})

describe('undo proposals for arbitrary tools', () => {
  const words = fc.constantFrom('create', 'delete', 'add', 'un', 'toggle', 'move', 'write', 'read', 'update')
  const name = fc.oneof(
    fc.tuple(words, fc.constantFrom('_file', 'File', '-x y', '_"(', ' ', '', '_файл')).map(([a, b]) => a + b),
    fc.string(),
  )
  const schema = fc.oneof(
    fc.constantFrom<unknown>(text, number, texts, {}, true, null, [], { type: ['string', 'null'] }),
    fc.jsonValue(),
  )
  const fields = fc.dictionary(
    fc.oneof(fc.constantFrom('path', 'id', 'file_id', 'content', 'new path'), fc.string()),
    schema,
  )
  const listed = fc.record(
    {
      name,
      inputSchema: fc.oneof(
        fields.map((properties) => ({ type: 'object', properties, required: Object.keys(properties) })),
        fc.jsonValue(),
      ),
      outputSchema: fc.oneof(
        fields.map((properties) => ({ type: 'object', properties })),
        fc.jsonValue(),
      ),
      annotations: fc.jsonValue(),
    },
    { requiredKeys: ['name'] },
  )

  test('a proposal is always accepted as configuration', () => {
    fc.assert(
      fc.property(fc.array(listed, { minLength: 1, maxLength: 6 }), (tools) => {
        for (const each of tools) {
          const { proposal } = proposeUndo(each, tools)
          if (!proposal) continue
          const rule = readUndo(proposal.undo)
          // A certain proposal is exact too.
          expect(isSure(proposal) && rule.kind !== 'none' && !rule.isExact).toBe(false)
        }
      }),
    )
  })
})
