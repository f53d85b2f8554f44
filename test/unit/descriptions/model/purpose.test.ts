import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { describedServer, describedServers, describedTool } from '../../../support/described-server.ts'

const tools = (...names: string[]) => names.map((name) => ({ name, inputSchema: { type: 'object' } }))

describe('the description of a server', () => {
  test('the description states when to use the server and has a bounded length for any text', () => {
    const text = fc.option(fc.string({ maxLength: 3000 }), { nil: undefined })
    fc.assert(
      fc.property(
        text,
        text,
        fc.array(fc.string({ maxLength: 400 }), { maxLength: 12 }),
        (about, instructions, useWhen) => {
          const { description } = describedServer({
            tools: tools('read_file', 'write_file'),
            record: {
              ...(instructions !== undefined && { instructions }),
              about: { ...(about !== undefined && { about }), useWhen },
            },
          })
          expect(description).toMatch(/\buse (?:this |it )?when\b/i)
          expect(description.length).toBeLessThanOrEqual(1024)
          expect(description).not.toContain('\n')
        },
      ),
    )
  })

  test('the description is the configured text', () => {
    const about = {
      about: 'Issues of our tracker',
      useWhen: ['search issues', 'Use when the user asks to open an issue.'],
    }
    expect(describedServer({ record: { about } }).description).toBe(
      'Issues of our tracker. Use when the user asks to search issues or open an issue.',
    )
  })

  test('a configured text that states when to use the server is used alone', () => {
    const about = { about: 'Issues of our tracker; use it when somebody asks for a ticket.' }
    expect(describedServer({ record: { about } }).description).toBe(about.about)
  })

  test.each([
    [{ instructions: '# Hello\n\nFinds trains. Ask politely.' }, 'Finds trains.'],
    [{ info: { description: 'All about trains' } }, 'All about trains.'],
    [{ info: { title: 'Trains' } }, 'Trains.'],
    [{}, 'Tools for files: trains and tickets.'],
  ])('the purpose is derived from the best available source: %j', (record, purpose) => {
    expect(describedServer({ record, tools: tools('find_train', 'list_trains', 'buy_ticket') }).purpose).toBe(
      purpose,
    )
  })

  test('example tools are dissimilar and not deprecated', () => {
    const { useWhen } = describedServer({
      tools: [
        { name: 'read_file', description: 'Read a file. DEPRECATED: use read_text.' },
        ...tools('read_text', 'read_image', 'read_sound', 'write_text', 'delete_folder'),
        { name: 'search', description: 'Search everything by words.' },
      ],
    })
    expect(useWhen).toEqual(
      expect.arrayContaining(['write text', 'delete folder', 'search everything by words']),
    )
    expect(useWhen.length).toBeLessThanOrEqual(5)
    expect(useWhen).not.toContain('read a file')
  })

  test('the description of several servers names each with its purpose', () => {
    const all = describedServers([
      { record: { name: 'one' }, tools: tools('get_a') },
      { record: { name: 'two' }, tools: tools('get_b') },
    ])
    expect(all.purpose).toBe('One MCP endpoint for 2 servers: one and two.')
    expect(all.tools.map(({ name }) => name)).toEqual(['one_get_a', 'two_get_b'])
    expect(all.name).toMatch(/^[a-z0-9-]+$/)
  })

  test('an unavailable server is described, but its tools are not listed', () => {
    const all = describedServers([
      { record: { name: 'one', isUp: false }, tools: tools('get_a') },
      { record: { name: 'two' }, tools: tools('get_b') },
    ])
    expect(all.tools.map(({ name }) => name)).toEqual(['two_get_b'])
    expect(all.parts.map(({ name }) => name)).toEqual(['one', 'two'])
  })
})

describe('the access level of a server', () => {
  test.each([
    ['read', ['get_a', 'list_b'], {}],
    ['interact', ['get_a', 'create_b'], {}],
    ['full', ['get_a', 'delete_b'], {}],
    ['interact', ['delete_b'], { delete_b: { confirmation: { message: 'Sure?', isOutOfBand: false } } }],
  ])('the access level is %s with %j', (level, names, facts) => {
    expect(describedServer({ tools: tools(...names), facts }).accessLevel).toBe(level)
  })

  test('the configured access level has precedence', () => {
    expect(
      describedServer({ tools: tools('delete_b'), record: { about: { access: 'read' } } }).accessLevel,
    ).toBe('read')
  })
})

test('tools are grouped by the noun most of them share', () => {
  const { tools: own } = describedServer({
    tools: tools(
      'read_file',
      'get_file_info',
      'list_directory',
      'directory_tree',
      'create_directory',
      'files_status',
      'echo',
    ),
  })
  expect(Object.fromEntries(own.map(({ name, category }) => [name, category]))).toEqual({
    read_file: 'files',
    get_file_info: 'files',
    list_directory: 'directories',
    directory_tree: 'directories',
    create_directory: 'directories',
    files_status: 'files',
    echo: 'files',
  })
})

test('a common prefix of all names is not used as a noun', () => {
  const { tools: own } = describedServer({
    tools: tools('browser_navigate', 'browser_navigate_back', 'browser_network_requests', 'browser_close'),
  })
  expect(own.map(({ category }) => category)).toEqual(['files', 'files', 'requests', 'files'])
})

test('a verb shared by all tools is not used as a noun', () => {
  const { tools: own } = describedServer({ tools: tools('get_forecast', 'get_alert', 'get_alert_history') })
  expect(own.map(({ category }) => category)).toEqual(['forecasts', 'alerts', 'alerts'])
})

test('a server named after its subject is described by that subject', () => {
  const read = tools('read_file', 'write_file', 'list_directory')
  expect(describedServer({ tools: read }).purpose).toBe('Tools for files and directories.')
})

test.each([
  ['Retrieve a user\nError Responses:\n400: Bad request', 'Retrieve a user'],
  ['Adds two\nnumbers.\n\nArgs:\n  a: One', 'Adds two numbers.'],
])('the summary of %j ends with its prose', (description, summary) => {
  expect(describedTool({ name: 'add', description }).summary).toBe(summary)
})

test.each([
  ['create_issue', ['creates an issue in files']],
  ['delete_entities', ['deletes entities in files']],
  ['copy_file_to_folder', ['copies a file to folder in files']],
  ['patch', ['may change data of files']],
  ['get_issue', []],
])('%s has the side effects %j', (name, effects) => {
  expect(describedTool({ name }).effects).toEqual(effects)
})

test.each([
  ['browser_handle_dialog', 'Handle a dialog', ['handles a dialog in files']],
  ['browser_file_upload', 'Upload one or more files', ['may change data of files']],
  ['browser_close', 'Close the page', ['may change data of files']],
  ['browser_create_tab', '', ['creates a tab in files']],
])(
  'a common prefix of all names is not used as a verb: %s, described as "%s"',
  (name, description, effects) => {
    const all = [
      ...tools('browser_open', 'browser_type'),
      { name, description, inputSchema: { type: 'object' } },
    ]
    expect(describedServer({ tools: all }).tools.at(-1)?.effects).toEqual(effects)
  },
)

test('the server name is not used as a verb of its tools', () => {
  const [tool] = describedServer({ tools: tools('files_create_folder') }).tools
  expect(tool?.effects).toEqual(['creates a folder in files'])
})

test('a use shared by several servers is listed once', () => {
  const both = ['alpha', 'bravo'].map((name) => ({ record: { name }, tools: tools('read_file') }))
  expect(describedServers(both).useWhen).toEqual(['read file'])
})
