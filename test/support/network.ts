/** Networks of processes: a place that reaches the machine over two links, one of which can be cut without a sign. */
import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { getuid } from 'node:process'
import type { Need } from './needs.ts'

const IP = '/usr/sbin/ip'

/** What tests with places of their own need. */
export const NAMESPACES: Need = {
  // Only where it may be used.
  program: getuid?.() === 0 && mayIsolate() ? IP : 'the right to make network namespaces',
  get: 'run as root, with iproute2',
  isOptional: true,
}

/** A network namespace, and the addresses around it. */
export interface NetworkPlace {
  /** The addresses of the machine over the link that can be cut, and over the other one. */
  readonly cuttable: string
  readonly steady: string
  /** The address of the place, over the link that is never cut. */
  readonly own: string
  /** The words that start a program there. */
  readonly command: readonly string[]
  /** From now on nothing arrives over the link, and nobody is told. */
  cut(): void
  mend(): void
  remove(): void
}

/** Makes one. */
export function networkPlace(): NetworkPlace {
  const number = randomInt(0x10_00_00, 0xff_ff_ff)
  const name = `gh${number.toString(16)}`
  const subnet = `10.${128 + (number % 100)}.${(number >> 8) % 250}`
  const [cuttable, there, steady, own] = [1, 2, 5, 6].map((last) => `${subnet}.${last}`)
  if (cuttable === undefined || there === undefined || steady === undefined || own === undefined)
    throw new TypeError('four addresses are missing')
  ip('netns', 'add', name)
  ip('-n', name, 'link', 'set', 'lo', 'up')
  const link = (outside: string, inside: string, here: string, remote: string): void => {
    ip('link', 'add', outside, 'type', 'veth', 'peer', 'name', inside)
    ip('link', 'set', inside, 'netns', name)
    ip('addr', 'add', `${here}/30`, 'dev', outside)
    ip('link', 'set', outside, 'up')
    ip('-n', name, 'addr', 'add', `${remote}/30`, 'dev', inside)
    ip('-n', name, 'link', 'set', inside, 'up')
  }
  link(`${name}a`, `${name}b`, cuttable, there)
  link(`${name}c`, `${name}d`, steady, own)
  // What is sent to an address of the link layer that nobody has is lost.
  const nobody = ['lladdr', '02:00:00:00:00:01', 'nud', 'permanent']
  const outside = [there, 'dev', `${name}a`]
  const inside = [cuttable, 'dev', `${name}b`]
  return {
    cuttable,
    steady,
    own,
    command: [IP, 'netns', 'exec', name],
    cut: () => {
      ip('neigh', 'replace', ...outside.slice(0, 1), ...nobody, ...outside.slice(1))
      ip('-n', name, 'neigh', 'replace', ...inside.slice(0, 1), ...nobody, ...inside.slice(1))
    },
    mend: () => {
      ip('neigh', 'del', ...outside)
      ip('-n', name, 'neigh', 'del', ...inside)
    },
    remove: () => ip('netns', 'del', name),
  }
}

function ip(...words: readonly string[]): void {
  execFileSync(IP, words, { stdio: 'pipe' })
}

function mayIsolate(): boolean {
  if (!existsSync(IP)) return false
  const name = `gh-try-${randomInt(0xff_ff_ff).toString(16)}`
  try {
    ip('netns', 'add', name)
    ip('netns', 'del', name)
    return true
  } catch {
    return false
  }
}
