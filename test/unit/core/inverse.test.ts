import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { inverseOf, proposeUndo } from '../../../src/core/inverse.ts'
import { readUndo } from '../../../src/core/undo.ts'

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

function undoOf(one: Definition, ...others: readonly Definition[]): unknown {
  return inverseOf(one, [one, ...others])?.undo
}

describe('a tool with a counterpart of the opposite name is undone by it', () => {
  test.each([
    ['create_link', 'delete_link'],
    ['createLink', 'removeLink'],
    ['add-link', 'remove-link'],
    ['links_create', 'links_delete'],
    ['insert_row', 'delete_row'],
    ['upload_asset', 'delete_asset'],
    ['register_hook', 'deregister_hook'],
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
    ['add_label_to_issue', 'remove_label_from_issue'],
    ['create_entities', 'delete_entity'],
    ['github_create_branch', 'github_delete_branch'],
  ])('%s by %s', (one, other) => {
    const undo = undoOf(tool(one, { path: text, title: text }), tool(other, { path: text }))
    expect(undo).toBe(`${other}(path=$.args.path)`)
  })

  test.each([
    ['another noun', 'create_issue', 'delete_branch'],
    ['no opposite', 'create_issue', 'comment_issue'],
    ['more nouns', 'create_issue', 'delete_issue_comment'],
    ['the same verb', 'add_user', 'add_users'],
  ])('but not where there is %s', (_why, one, other) => {
    expect(undoOf(tool(one, { path: text }), tool(other, { path: text }))).toBeUndefined()
  })

  test('a tool that only reads needs no undo, and undoes nothing', () => {
    const hinted = { ...tool('create_view', { path: text }), annotations: { readOnlyHint: true } }
    expect(undoOf(hinted, tool('delete_view', { path: text }))).toBeUndefined()
    expect(undoOf(tool('delete_view', { path: text }), hinted)).toBeUndefined()
  })

  test('what is taken away can be made again where every argument is known, and that is not exact', () => {
    const made = tool('create_relation', { from: text, to: text })
    const inverse = inverseOf(tool('delete_relation', { from: text, to: text }), [made])
    expect(inverse?.undo).toEqual({
      call: 'create_relation(from=$.args.from, to=$.args.to)',
      exact: false,
    })
    expect(inverse?.confidence).toBe('check')
    const more = tool('create_relation', { from: text, to: text, 'note?': text })
    expect(undoOf(tool('delete_relation', { from: text, to: text }), more)).toBeUndefined()
  })
})

describe('what tells which thing is meant is said, though it need not be', () => {
  test('an id the result is known to have', () => {
    const inverse = inverseOf(tool('create_issue', { title: text }, { id: text }), [
      tool('delete_issue', { 'id?': text }),
    ])
    expect(inverse).toMatchObject({ undo: 'delete_issue(id=$.result.id)', confidence: 'sure' })
  })

  test('an id the result may have, to be checked', () => {
    const inverse = inverseOf(tool('create_issue', { title: text }), [
      tool('delete_issue', { 'issue_id?': text }),
    ])
    expect(inverse).toMatchObject({ undo: 'delete_issue(issue_id=$.result.id)', confidence: 'check' })
  })

  test('an argument of both', () => {
    const inverse = inverseOf(tool('lock_account', { user: text }), [
      tool('unlock_account', { 'user?': text }),
    ])
    expect(inverse).toMatchObject({ undo: 'unlock_account(user=$.args.user)', confidence: 'sure' })
  })

  test.each([
    ['an argument that may be absent', { item: text, 'tag?': text }, { item: text, 'tag?': text }, 'tag'],
    ['an id nobody knows', { title: text, 'id?': number }, { 'id?': text }, 'id'],
  ])('%s is left out, to be checked', (_why, inputs, others, left) => {
    const inverse = inverseOf(tool('add_tag', inputs, {}), [tool('remove_tag', others)])
    expect(inverse?.confidence).toBe('check')
    expect(inverse?.why).toContain(`remove_tag is called without ${left}`)
  })

  test('a call that says nothing is to be checked, unless there is nothing to say', () => {
    const inverse = inverseOf(tool('create_issue', { title: text }), [tool('delete_issue', {})])
    expect(inverse).toMatchObject({ undo: 'delete_issue()', confidence: 'check' })
    expect(inverse?.why).toContain('nothing tells delete_issue which one is meant')
    expect(inverseOf(tool('open_door', {}), [tool('close_door', {})])).toMatchObject({
      undo: 'close_door()',
      confidence: 'sure',
    })
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
    const inverse = inverseOf(tool('create_relations', { relations }, { relations }), [
      tool('delete_relations', { relations }),
    ])
    expect(inverse).toMatchObject({
      undo: 'delete_relations(relations=$.result.relations)',
      confidence: 'sure',
    })
  })

  test.each([
    ['id', { id: text }, '$.result.id'],
    ['issue_id', { id: text }, '$.result.id'],
    ['issueId', { issue_id: text }, '$.result.issue_id'],
    ['issue_number', { issue: object({ number: text }) }, '$.result.issue.number'],
  ])('%s from a result with a schema', (wanted, outputs, path) => {
    const inverse = inverseOf(tool('create_issue', { title: text }, outputs), [
      tool('delete_issue', { [wanted]: text }),
    ])
    expect(inverse).toMatchObject({ undo: `delete_issue(${wanted}=${path})`, confidence: 'sure' })
  })

  test.each([
    ['id', '$.result.id'],
    ['issue_id', '$.result.id'],
    ['issueKey', '$.result.key'],
    ['issue_number', '$.result.number'],
  ])('%s from a result without a schema, to be checked', (wanted, path) => {
    const inverse = inverseOf(tool('create_issue', { title: text }), [
      tool('delete_issue', { [wanted]: text }),
    ])
    expect(inverse).toMatchObject({ undo: `delete_issue(${wanted}=${path})`, confidence: 'check' })
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
    expect(undoOf(tool('create_row', { at: number }), tool('delete_row', { at: text }))).toBeUndefined()
    expect(
      undoOf(tool('create_row', { at: text }), tool('delete_row', { at: texts, at2: text })),
    ).toBeUndefined()
  })

  test('from an argument that may be absent, to be checked', () => {
    const inverse = inverseOf(tool('create_row', { 'at?': text }), [tool('delete_row', { at: text })])
    expect(inverse).toMatchObject({ undo: 'delete_row(at=$.args.at)', confidence: 'check' })
  })

  test('from a member of each of a list, of what was really made where that is told', () => {
    const entities = { type: 'array', items: object({ name: text, kind: text }) }
    const remove = tool('delete_entities', { entityNames: texts })
    expect(inverseOf(tool('create_entities', { entities }), [remove])).toMatchObject({
      undo: 'delete_entities(entityNames=$.args.entities[*].name)',
      confidence: 'sure',
    })
    expect(undoOf(tool('create_entities', { entities }, { entities }), remove)).toBe(
      'delete_entities(entityNames=$.result.entities[*].name)',
    )
    const numbered = tool('delete_entities', { entityNames: { type: 'array', items: number } })
    expect(undoOf(tool('create_entities', { entities }), numbered)).toBeUndefined()
    const others = tool('delete_entities', { userNames: texts })
    expect(undoOf(tool('create_entities', { entities }), others)).toBeUndefined()
  })

  test('a counterpart whose schema names no arguments one by one is not called', () => {
    const vague = { name: 'delete_row', inputSchema: { type: 'object', oneOf: [object({ at: text })] } }
    const proposal = proposeUndo(tool('create_row', { at: text }), [vague])
    expect(proposal).toMatchObject({ misses: [expect.stringContaining('does not list its arguments')] })
    expect(proposal.inverse).toBeUndefined()
  })
})

describe('what was moved is moved back', () => {
  test.each([
    ['source', 'destination'],
    ['from_path', 'to_path'],
    ['old_name', 'new_name'],
    ['path', 'newPath'],
  ])('from %s to %s', (from, to) => {
    expect(undoOf(tool('move_file', { [from]: text, [to]: text }))).toBe(
      `move_file(${from}=$.args.${to}, ${to}=$.args.${from})`,
    )
  })

  test('and what else it needs is told again', () => {
    expect(undoOf(tool('rename_branch', { repo: text, old_name: text, new_name: text }))).toBe(
      'rename_branch(repo=$.args.repo, old_name=$.args.new_name, new_name=$.args.old_name)',
    )
  })

  test('but a copy is not', () => {
    expect(undoOf(tool('copy_file', { source: text, destination: text }))).toBeUndefined()
  })
})

describe('what is written over is read before, and put back', () => {
  const write = tool('write_file', { path: text, content: text })
  const read = tool('read_text_file', { path: text, 'head?': number }, { content: text })

  test('by the tool itself', () => {
    expect(inverseOf(write, [write, read])).toMatchObject({
      undo: {
        snapshot: 'read_text_file(path=$.args.path)',
        restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
        absent: 'none',
      },
      confidence: 'sure',
    })
  })

  test('by another tool that writes, for one that edits', () => {
    const edit = tool('edit_file', { path: text, edits: texts })
    expect(undoOf(edit, read, write)).toEqual({
      snapshot: 'read_text_file(path=$.args.path)',
      restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
    })
  })

  test('and what was not there before is deleted', () => {
    const remove = tool('delete_file', { path: text })
    expect(undoOf(write, read, remove)).toMatchObject({ absent: 'delete_file(path=$.args.path)' })
    expect(undoOf(remove, read, write)).toEqual({
      snapshot: 'read_text_file(path=$.args.path)',
      restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
    })
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
    const inverse = inverseOf(update, [get({ title: text })])
    expect(inverse).toMatchObject({ undo: { exact: false }, confidence: 'check' })
    expect(inverse?.why).toContain('get_issue does not say what body was')
  })

  test('not where nothing says what a read gives', () => {
    const update = tool('update_issue', { id: text, 'title?': text })
    expect(undoOf(update, tool('get_issue', { id: text }))).toBeUndefined()
  })

  test('not where the read can not be told what', () => {
    expect(undoOf(write, tool('read_file', { handle: text }, { content: text }))).toBeUndefined()
  })
})

describe('what was made and can not be deleted', () => {
  test('is closed, which is not exact', () => {
    const update = tool('update_issue', {
      repo: text,
      issue_number: number,
      'state?': { enum: ['open', 'closed'] },
    })
    expect(inverseOf(tool('create_issue', { repo: text, title: text }), [update])).toMatchObject({
      undo: {
        call: 'update_issue(repo=$.args.repo, issue_number=$.result.number, state="closed")',
        exact: false,
      },
      confidence: 'check',
    })
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
          const inverse = inverseOf(each, tools)
          if (inverse) expect(() => readUndo(inverse.undo)).not.toThrow()
        }
      }),
    )
  })
})
