/**
 * The type of what a schema of settings describes, so that settings are declared once. Members are as the configuration passes
 * them on (`complete` of `config/schema-lookup.ts`): with their defaults, switches as booleans, durations in milliseconds, sizes
 * in bytes, and secrets as `Secret`. The schema must be a literal `as const`.
 */
import type { Secret } from '../text/secret.ts'

/** The type of valid values of a schema, once they are complete. */
export type FromSchema<Schema> = Schema extends { readonly 'x-secret': true }
  ? Secret
  : Schema extends { readonly enum: readonly (infer Value)[] }
    ? Exclude<Value, IsSwitch<Schema> extends true ? 'on' | 'off' : never>
    : Schema extends { readonly type: infer Type }
      ? OfType<Type extends readonly (infer Each)[] ? Each : Type, Schema>
      : unknown

/** A value that may be `on` or `off` is a boolean then. */
type IsSwitch<Schema> = Schema extends { readonly type: readonly (infer Each)[] }
  ? 'boolean' extends Each
    ? true
    : false
  : false

type OfType<Type, Schema> = Type extends 'boolean'
  ? Schema extends { readonly not: { readonly const: true } }
    ? false
    : boolean
  : Type extends 'integer' | 'number'
    ? number
    : Type extends 'string'
      ? OfText<Schema>
      : Type extends 'array'
        ? Schema extends { readonly items: infer Item }
          ? readonly FromSchema<Item>[]
          : readonly unknown[]
        : OfObject<Schema>

type OfText<Schema> =
  | (Schema extends { readonly pattern: '^off$' | `^off$|${string}` } ? 'off' : never)
  | (Schema extends { readonly 'x-unit': 'milliseconds' | 'bytes' }
      ? number
      : Schema extends { readonly pattern: '^off$' | '^(off|false)$' }
        ? never
        : string)

type OfObject<Schema> = Schema extends { readonly properties: infer Members }
  ? {
      readonly [
        Name in keyof Members as IsPresent<Schema, Members, Name> extends true ? Name : never
      ]: FromSchema<Members[Name]>
    } & {
      readonly [
        Name in keyof Members as IsPresent<Schema, Members, Name> extends true ? never : Name
      ]?: FromSchema<Members[Name]>
    }
  : Schema extends { readonly additionalProperties: infer Member }
    ? Readonly<Record<string, FromSchema<Member>>>
    : Readonly<Record<string, unknown>>

/** Whether a member is always there: it is required, or has a default. */
type IsPresent<Schema, Members, Name extends keyof Members> = Members[Name] extends {
  readonly default: unknown
}
  ? true
  : Schema extends { readonly required: readonly (infer Required)[] }
    ? Name extends Required
      ? true
      : false
    : false
