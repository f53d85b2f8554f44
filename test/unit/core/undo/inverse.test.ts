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

/** A tool whose arguments are all required but those named with a question mark. */
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

describe('a tool with a counterpart of the opposite name is undone by it', () => {
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
  ])('%s by %s, for sure, with the id that the server gave', (one, other) => {
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
  ])('%s by %s, but not for sure: it may have been so before', (one, other) => {
    const proposal = proposalOf(
      tool(one, { path: text, label: text }),
      tool(other, { path: text, label: text }),
    )
    expect(proposal?.undo).toBe(`${other}(path=$.args.path, label=$.args.label)`)
    expect(proposal?.caveats).toContainEqual(expect.stringContaining('before'))
  })

  test.each([
    ['another noun', 'create_issue', 'delete_branch'],
    ['no opposite', 'create_issue', 'comment_issue'],
    ['more nouns', 'create_issue', 'delete_issue_comment'],
    ['the same verb', 'add_user', 'add_users'],
  ])('but not where there is %s', (_why, one, other) => {
    expect(undoOf(tool(one, { path: text }, id), tool(other, id))).toBeUndefined()
  })

  test('a tool that only reads needs no undo, and undoes nothing', () => {
    const hinted = { ...tool('create_view', { path: text }), annotations: { readOnlyHint: true } }
    expect(undoOf(hinted, tool('delete_view', { path: text }))).toBeUndefined()
    expect(undoOf(tool('delete_view', { path: text }), hinted)).toBeUndefined()
  })

  test('what is taken away can be made again where every argument is known, and that is not exact', () => {
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

describe('nothing is proposed that could hit what the call did not make', () => {
  const place = { connectionId: text, database: text, collection: text }
  const object_ = { type: 'object' }

  test('many things inserted are not undone by deleting all there are', () => {
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
    ['nothing to tell', { title: text }, {}],
    ['nothing but where it is', { board: text, title: text }, { board: text }],
    ['nothing but what it belongs to', { issue_id: text, body: text }, { issue_id: text }],
    ['a filter that may be left out', { title: text, name: text }, { 'filter?': object_ }],
    ['a query it was given too', { board: text, query: text }, { board: text, query: text }],
  ])('a thing made is not undone by a call with %s', (_what, inputs, others) => {
    const [create, remove] = [tool('create_card', inputs), tool('delete_card', others)]
    expect(undoOf(create, remove)).toBeUndefined()
    expect(missesOf(create, remove)[0]).toMatch(/nothing identifies/)
  })

  test('a comment on an issue is not told by the issue', () => {
    const create = tool('create_comment_on_issue', { issue_number: number, body: text })
    const remove = tool('delete_comment_on_issue', { issue_number: number })
    expect(undoOf(create, remove)).toBeUndefined()
  })

  test('of several that were made not one alone is taken away', () => {
    const create = tool('create_cards', { names: texts }, { id: text })
    expect(undoOf(create, tool('delete_cards', { id: text }))).toBeUndefined()
  })

  test('what switches nothing in particular is not switched back', () => {
    expect(
      undoOf(tool('enable_rule', { 'mode?': text }), tool('disable_rule', { 'mode?': text })),
    ).toBeUndefined()
    expect(proposalOf(tool('open_door', {}), tool('close_door', {}))).toMatchObject({ undo: 'close_door()' })
  })

  test('several things that are moved are not moved back: others may have been there before', () => {
    const moved = tool('move_emails', { from_folder: text, to_folder: text })
    expect(undoOf(moved)).toBeUndefined()
    expect(undoOf(tool('move_stock', { from_id: text, to_id: text, amount: number }))).toBeUndefined()
  })
})

describe('a proposal is sure only where nothing is left open', () => {
  const create = tool('create_issue', { title: text }, { id: text })

  test('an id the result is known to have', () => {
    expect(proposalOf(create, tool('delete_issue', { 'id?': text }))).toMatchObject({
      undo: 'delete_issue(id=$.result.id)',
      caveats: [],
    })
  })

  test('an id the result may have is in doubt', () => {
    const proposal = proposalOf(
      tool('create_issue', { title: text }),
      tool('delete_issue', { 'issue_id?': text }),
    )
    expect(proposal?.undo).toBe('delete_issue(issue_id=$.result.id)')
    expect(proposal?.caveats).toEqual([expect.stringContaining('there is no outputSchema')])
  })

  test.each(['filter', 'where', 'query', 'conditions', 'selector', 'ids', 'name', 'namespace', 'mode'])(
    '%s, which may be left out, is in doubt',
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
  ])('%s is said to be false', (name) => {
    for (const end of ['', '?']) {
      const switchable = tool('delete_issue', { id: text, [`${name}${end}`]: { type: 'boolean' } })
      expect(proposalOf(create, switchable)).toMatchObject({
        undo: `delete_issue(id=$.result.id, ${name}=false)`,
        caveats: [],
      })
    }
  })

  test.each(['comment', 'reason', 'notify', 'timeout_ms'])('%s may be left out', (name) => {
    expect(proposalOf(create, tool('delete_issue', { id: text, [`${name}?`]: text }))?.caveats).toEqual([])
  })

  test.each<[string, Definition, Definition]>([
    ['that may be there before', { annotations: { idempotentHint: true } }, {}],
    ['that may be replaced', { description: 'Creates an issue, or replaces it.' }, {}],
    ['that may be updated', { description: 'Create or update an issue.' }, {}],
    ['that is made only if missing', { description: 'Creates it if it does not exist.' }, {}],
    ['whose deletion takes more', {}, { description: 'Deletes an issue and its comments.' }],
  ])('what is made %s is in doubt', (_what, one, other) => {
    const proposal = proposalOf({ ...create, ...one }, { ...tool('delete_issue', { id: text }), ...other })
    expect(proposal?.undo).toBe('delete_issue(id=$.result.id)')
    expect(proposal?.caveats).toHaveLength(1)
  })

  test('with a switch that replaces what is there it is in doubt', () => {
    const upsert = tool('create_issue', { title: text, 'overwrite?': { type: 'boolean' } }, { id: text })
    expect(proposalOf(upsert, tool('delete_issue', { id: text }))?.caveats).toHaveLength(1)
  })

  test.each(['folder', 'directory', 'database', 'table', 'collection', 'project', 'branch'])(
    'a %s may hold what others put there since, unless it is deleted empty',
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

  test('a key that the caller chose is sure where the whole of it is told', () => {
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

  test('an id among the arguments may be that of another thing', () => {
    const made = tool('create_comment', { id: text, body: text })
    expect(proposalOf(made, tool('delete_comment', { comment_id: text }))?.caveats).toEqual([
      'id of create_comment may identify another object',
    ])
  })

  test('a list of names that the caller chose is in doubt: some may have been there', () => {
    const made = tool('create_secrets', { names: texts })
    const proposal = proposalOf(made, tool('delete_secrets', { names: texts }))
    expect(proposal?.undo).toBe('delete_secrets(names=$.args.names)')
    expect(proposal?.caveats).toHaveLength(1)
  })
})

describe('every argument the counterpart needs is filled by name', () => {
  test('from the arguments, in whatever style they are written', () => {
    const undo = undoOf(
      tool('create_card', { boardId: text, slug: text }),
      tool('delete_card', { board_id: text, slug: text }),
    )
    expect(undo).toBe('delete_card(board_id=$.args.boardId, slug=$.args.slug)')
  })

  test('from the result, where its schema says what was really made', () => {
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
  ])('%s from a result with a schema', (wanted, outputs, path) => {
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
  ])('%s from a result without a schema, which is in doubt', (wanted, path) => {
    const proposal = proposalOf(
      tool('create_issue', { title: text }),
      tool('delete_issue', { [wanted]: text }),
    )
    expect(proposal?.undo).toBe(`delete_issue(${wanted}=${path})`)
    expect(proposal?.caveats).toHaveLength(1)
  })

  test('an id of something else is not taken from the result', () => {
    expect(
      undoOf(tool('create_issue', { title: text }), tool('delete_issue', { id: text, project_id: text })),
    ).toBeUndefined()
  })

  test('a list of one is made of one', () => {
    expect(undoOf(tool('add_user', { name: text }), tool('remove_users', { names: texts }))).toBe(
      'remove_users(names=[$.args.name])',
    )
  })

  test('not from what is of another type', () => {
    expect(undoOf(tool('create_row', { name: number }), tool('delete_row', { name: text }))).toBeUndefined()
    expect(undoOf(tool('create_row', { name: texts }), tool('delete_row', { name: text }))).toBeUndefined()
  })

  test('from an argument that may be absent, which is in doubt', () => {
    const proposal = proposalOf(tool('create_row', { 'name?': text }), tool('delete_row', { name: text }))
    expect(proposal?.undo).toBe('delete_row(name=$.args.name)')
    expect(proposal?.caveats).toEqual(['name of the arguments may be absent'])
  })

  test('from a member of each of a list, of what was really made where that is told', () => {
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

  test('a counterpart whose schema names no arguments one by one is not called', () => {
    const vague = { name: 'delete_row', inputSchema: { type: 'object', oneOf: [object({ at: text })] } }
    const suggestion = proposeUndo(tool('create_row', { at: text }), [vague])
    expect(suggestion).toMatchObject({ misses: [expect.stringContaining('does not list its arguments')] })
    expect(suggestion.proposal).toBeUndefined()
  })
})

describe('what was moved is moved back', () => {
  const fails = 'If the destination exists, the operation will fail.'

  test.each([
    ['source', 'destination'],
    ['from_path', 'to_path'],
    ['old_name', 'new_name'],
    ['path', 'newPath'],
  ])('from %s to %s', (from, to) => {
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
  ])('but not for sure where it may replace what was there: %j', (description) => {
    const move = { ...tool('move_file', { source: text, destination: text }), description }
    expect(proposalOf(move)?.caveats).toEqual(['move_file may replace an existing object at destination'])
  })

  test('and what else it needs is told again', () => {
    expect(undoOf(tool('rename_branch', { repo: text, old_name: text, new_name: text }))).toBe(
      'rename_branch(repo=$.args.repo, old_name=$.args.new_name, new_name=$.args.old_name)',
    )
    expect(undoOf(tool('move_card', { card_id: text, from_list: text, to_list: text }))).toBe(
      'move_card(card_id=$.args.card_id, from_list=$.args.to_list, to_list=$.args.from_list)',
    )
  })

  test('with what need not be told it is in doubt, and a switch is said to be false', () => {
    const move = (more: Properties): Definition => {
      return { ...tool('move_file', { source: text, destination: text, ...more }), description: fails }
    }
    expect(proposalOf(move({ 'drive?': text }))?.caveats).toHaveLength(1)
    const forced = proposalOf(move({ 'overwrite?': { type: 'boolean' } }))
    expect(forced?.undo).toMatch(/, overwrite=false\)$/)
    expect(forced?.caveats).toEqual(['with overwrite it may replace an existing object'])
  })

  test('but a copy is not', () => {
    expect(undoOf(tool('copy_file', { source: text, destination: text }))).toBeUndefined()
  })
})

describe('what is written over is read before, and put back', () => {
  const write = tool('write_file', { path: text, content: text })
  const read = tool('read_text_file', { path: text, 'head?': number }, { content: text })

  test('by the tool itself', () => {
    expect(proposalOf(write, read)).toMatchObject({
      undo: {
        snapshot: 'read_text_file(path=$.args.path)',
        restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
        absent: 'none',
      },
      caveats: [],
    })
  })

  test('by another tool that writes, for one that edits', () => {
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

  test('and what was not there before is deleted, where that hits nothing else', () => {
    const remove = tool('delete_file', { path: text })
    expect(undoOf(write, read, remove)).toMatchObject({ absent: 'delete_file(path=$.args.path)' })
    const wide = tool('delete_file', { path: text, 'pattern?': text })
    expect(undoOf(write, read, wide)).toMatchObject({ absent: 'none' })
    const on = tool('write_file', { drive: text, path: text, content: text })
    const reading = tool('read_text_file', { drive: text, path: text }, { content: text })
    expect(undoOf(on, reading, remove)).toMatchObject({ absent: 'none' })
  })

  test('what is deleted is written again, which is not exact', () => {
    const proposal = proposalOf(tool('delete_file', { path: text }), read, write)
    expect(proposal?.undo).toEqual({
      exact: false,
      snapshot: 'read_text_file(path=$.args.path)',
      restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
    })
    expect(proposal?.caveats).toHaveLength(1)
  })

  test('a tool that is not to be used any more is the last to be used', () => {
    const old = { ...tool('read_file', { path: text }, { content: text }), description: 'DEPRECATED: …' }
    expect(undoOf(write, old, read)).toMatchObject({ snapshot: 'read_text_file(path=$.args.path)' })
    expect(undoOf(write, old)).toMatchObject({ snapshot: 'read_file(path=$.args.path)' })
  })

  test('with every field that can be changed, and it is said which was not read', () => {
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

  test('a switch that is content is put back as it was, and is no switch of the call', () => {
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
      'only a part may be read',
      tool('write_file', { path: text, content: text }),
      tool('read_file', { path: text, 'limit?': number }, { content: text }),
    ],
    [
      'it may be read elsewhere',
      tool('write_file', { path: text, 'branch?': text, content: text }),
      tool('read_file', { path: text, 'branch?': text }, { content: text }),
    ],
    [
      'the read is not told all that tells it apart',
      tool('write_file', { repo: text, path: text, content: text }),
      tool('read_file', { path: text }, { content: text, repo: text }),
    ],
    [
      'nothing tells what is read',
      tool('update_cards', { status: text }),
      tool('get_cards', {}, { status: text }),
    ],
  ])('not for sure where %s', (_why, one, other) => {
    expect(proposalOf(one, other)?.caveats.length).toBeGreaterThan(0)
  })

  test('a bulk change is not undone by what is read without its filter', () => {
    const update = tool('update_records', { table: text, data: text, 'where?': text })
    const get = tool('read_records', { table: text }, { data: text })
    expect(undoOf(update, get)).toBeUndefined()
    expect(missesOf(update, get)).toEqual([
      'update_records changes everything that matches where, and read_records does not read the same selection',
    ])
  })

  test('what a read gives as a whole is no object to put back', () => {
    const put = tool('write_config', { path: text, data: { type: 'object' } })
    expect(undoOf(put, tool('read_config', { path: text }))).toBeUndefined()
  })

  test('not where nothing says what a read gives', () => {
    const update = tool('update_issue', { id: text, 'title?': text })
    expect(undoOf(update, tool('get_issue', { id: text }))).toBeUndefined()
  })

  test('not where the read cannot be told what', () => {
    expect(undoOf(write, tool('read_file', { handle: text }, { content: text }))).toBeUndefined()
  })
})

describe('what was made and cannot be deleted', () => {
  test('is closed, which is not exact', () => {
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

describe('whatever servers list', () => {
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

  test('a proposal can be read as the configuration is', () => {
    fc.assert(
      fc.property(fc.array(listed, { minLength: 1, maxLength: 6 }), (tools) => {
        for (const each of tools) {
          const { proposal } = proposeUndo(each, tools)
          if (!proposal) continue
          const rule = readUndo(proposal.undo)
          // What is sure is exact too.
          expect(isSure(proposal) && rule.kind !== 'none' && !rule.isExact).toBe(false)
        }
      }),
    )
  })
})
