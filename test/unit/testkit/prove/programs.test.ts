import { expect, it } from 'vitest'
import { programsIn } from '../../../../src/testkit/prove/copies.ts'

it.each([
  ['node server.js ./docs', ['server.js']],
  ['/usr/bin/server ./docs', ['/usr/bin/server']],
  [
    'node --import ./hook.mjs -r ./first.js --flag server.ts ./data',
    ['./hook.mjs', './first.js', 'server.ts'],
  ],
  ['npx -y @modelcontextprotocol/server-filesystem ./docs', ['@modelcontextprotocol/server-filesystem']],
  ['npx.cmd -y tsx ./server.ts ./data.json', ['./server.ts']],
  ['uv --directory ./project run server.py ./data.json', ['server.py']],
  ['python3.12 -m server ./data.json', ['server']],
  ['deno run -A ./main.ts ./data', ['./main.ts']],
  ['java -jar ./server.jar ./data', ['./server.jar']],
  ['node', []],
])('the programs of %s are %j', (line, programs) => {
  const words = line.split(' ')
  expect([...programsIn(words)].map((at) => words[at])).toEqual(programs)
})
