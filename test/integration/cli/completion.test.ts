import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { gatewayProgram } from '../../support/gateway-process.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-completion-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

// The scripts run the command that is completed.
const program = join(folder, 'gatehouse')
writeFileSync(
  program,
  `#!/bin/sh\nexec ${gatewayProgram()
    .map((word) => `'${word}'`)
    .join(' ')} "$@"\n`,
)
chmodSync(program, 0o755)
mkdirSync(join(folder, 'data'))
writeFileSync(join(folder, 'data', 'gateway.yaml'), '')
const env = { PATH: `${folder}:${process.env['PATH']}`, HOME: folder, TERM: 'dumb' }

/** Whether a shell is installed, and what it prints for a script. */
function shell(name: string, ...options: string[]) {
  const run = (script: string): string =>
    execFileSync(name, [...options, '-c', script], {
      cwd: folder,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  try {
    run('true')
    return { isMissing: false, run }
  } catch {
    return { isMissing: true, run }
  }
}

const lines: readonly (readonly [words: readonly string[], completed: readonly string[]])[] = [
  [['gatehouse', 'expl'], ['explain']],
  [['gatehouse', 'tx', 'r'], ['rollback']],
  [['gatehouse', 'tx', 'show', '--prin'], ['--principal']],
  [['gatehouse', 'serve', '--log-level', 'de'], ['debug']],
]

describe('in bash', () => {
  const { run, isMissing } = shell('bash', '--norc')

  test.skipIf(isMissing).each(lines)('%j becomes %j', (words, completed) => {
    const array = words.map((word) => `'${word}'`).join(' ')
    const printed = run(
      `eval "$(gatehouse completion bash)"; COMP_WORDS=(${array}); COMP_CWORD=${words.length - 1}; _gatehouse; printf '%s\\n' "\${COMPREPLY[@]}"`,
    )
    expect(printed.trim().split('\n')).toEqual(completed)
  })

  test.skipIf(isMissing)('an option with an equals sign, and the name of a file, are completed', () => {
    const printed = run(
      `eval "$(gatehouse completion bash)"; COMP_WORDS=(gatehouse serve --log-level = w); COMP_CWORD=4; _gatehouse; echo "\${COMPREPLY[@]}"
       compopt() { echo compopt "$@"; }; COMP_WORDS=(gatehouse check --config da); COMP_CWORD=3; _gatehouse; echo "\${#COMPREPLY[@]}"
       complete -p gatehouse`,
    )
    expect(printed).toBe('warn\ncompopt -o default\n0\ncomplete -F _gatehouse gatehouse\n')
  })
})

describe('in zsh, where it is installed', () => {
  const { run, isMissing } = shell('zsh', '-f')

  test.skipIf(isMissing).each(lines)('%j becomes %j', (words, completed) => {
    // Outside of a terminal, what the script passes on is printed.
    const printed = run(
      `compdef() { :; }; compset() { :; }; _describe() { print -l -- "\${(@P)2}"; }; _files() { print files; }
       eval "$(gatehouse completion zsh)"
       words=(${words.map((word) => `'${word}'`).join(' ')}); CURRENT=${words.length}; _gatehouse
       words=(gatehouse check --config da); CURRENT=4; _gatehouse`,
    )
    const found = printed.trim().split('\n')
    expect(found.pop()).toBe('files')
    expect(found.map((line) => line.split(':')[0])).toEqual(completed)
  })
})

describe('in fish, where it is installed', () => {
  const { run, isMissing } = shell('fish', '--no-config')

  test.skipIf(isMissing).each(lines)('%j becomes %j', (words, completed) => {
    const printed = run(`gatehouse completion fish | source; complete -C '${words.join(' ')}'`)
    const found = printed.trim().split('\n')
    expect(found.map((line) => line.split('\t')[0])).toEqual(completed)
  })

  test.skipIf(isMissing)('the name of a file is completed', () => {
    const printed = run(`gatehouse completion fish | source; complete -C 'gatehouse check --config data/'`)
    expect(printed.trim()).toBe('data/gateway.yaml')
  })
})
