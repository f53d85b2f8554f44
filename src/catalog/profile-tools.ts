/**
 * The tools in the list of a profile: which of its servers' tools it has, and their names and descriptions there. Invariant:
 * what the profile does not list cannot be called by its URL, whatever name a client uses for it, and a name is that of one
 * tool. A new name takes precedence: a tool that has this name itself is not in the list.
 */
import type { Payload } from '../core/payload.ts'
import type { ListSettings, ProfileSettings, Settings } from '../core/settings.ts'
import { aliasOf } from '../core/text/alias.ts'
import { fits } from '../core/text/pattern.ts'
import { type Candidate, type Naming, namingAmong } from './names.ts'

/** A profile: its servers, and how its tools are named and listed. */
export interface OfferedProfile {
  readonly servers: readonly string[]
  readonly naming: Naming
  readonly tools: ProfileTools
  readonly lists?: ListSettings | undefined
}

/** The profiles of a configuration by name. */
export function offeredProfiles(settings: Settings): ReadonlyMap<string, OfferedProfile> {
  return new Map(
    settings.profiles.map((profile) => {
      const { name, servers, lists } = profile
      const naming = namingAmong(settings, servers)
      return [name, { servers, naming, tools: new ProfileTools(profile, naming), lists }]
    }),
  )
}

/** The tools of one profile. */
export class ProfileTools {
  readonly #profile: ProfileSettings
  readonly #naming: Naming
  /** The names that tools had, by their new ones. */
  readonly #before: ReadonlyMap<string, string>

  constructor(profile: ProfileSettings, naming: Naming) {
    this.#profile = profile
    this.#naming = naming
    this.#before = new Map(Object.entries(profile.rename).map(([name, to]) => [to, name]))
  }

  /** The name without this profile of a tool that a client names. */
  nameBefore(name: string): string {
    return this.#before.get(name) ?? name
  }

  /** Whether a client may call a tool of a server by this name. */
  admits(tool: Candidate, name: string): boolean {
    const renamed = this.#renamed(tool)
    return (renamed === undefined || renamed === name) && this.offers(tool)
  }

  /** The name of a tool that would be listed by another name; undefined if it is not listed. */
  listed(tool: Candidate, name: string): string | undefined {
    if (!this.offers(tool)) return undefined
    return this.#renamed(tool) ?? (this.#before.has(name) ? undefined : name)
  }

  /** An entry of the list, which has the name that clients see. */
  entry(tool: Payload): Payload {
    const { describe } = this.#profile
    const { name } = tool.fields
    const isDescribed = typeof name === 'string' && Object.hasOwn(describe, name)
    return isDescribed ? tool.with({ description: describe[name] }) : tool
  }

  /** Whether a tool of the gateway itself is in the list, if it can be. */
  showsOwn(name: string): boolean {
    return !this.#profile.hide.some((glob) => fits(glob, name))
  }

  /** Whether it has a tool of a server. */
  offers(tool: Candidate): boolean {
    const { show, hide } = this.#profile
    const renamed = this.#renamed(tool)
    const names = renamed === undefined ? this.#names(tool) : [renamed]
    const isAmong = (globs: readonly string[]): boolean =>
      globs.some((glob) => names.some((name) => fits(glob, name)))
    return !isAmong(hide) && (show === undefined || isAmong(show))
  }

  #renamed(tool: Candidate): string | undefined {
    const { rename } = this.#profile
    const before = this.#names(tool).find((name) => Object.hasOwn(rename, name))
    return before === undefined ? undefined : rename[before]
  }

  /** The names of a tool in lists: without a prefix, it still has the one with it; some providers get an alias of other names. */
  #names({ upstream, name: own }: Candidate): readonly string[] {
    const names = isForAll(own) ? [own] : [own, aliasOf(own)]
    return names.flatMap((name) => [this.#naming.name(upstream, name), this.#naming.prefixed(upstream, name)])
  }
}

/** Whether all providers take the name of a tool. */
function isForAll(name: string): boolean {
  return /^[a-zA-Z_][\w-]{0,63}$/.test(name)
}
