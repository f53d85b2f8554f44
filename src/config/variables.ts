/** Collects the environment variables an imported configuration refers to. */
export interface Variables {
  /** Names a variable for a secret value that stood in the file; the same value gets the same variable. */
  forValue(value: string, wanted: Wanted): string
  /** Notes a variable the file refers to already. */
  refer(name: string, meaning: string): void
  /** Every variable with what its value is to be. */
  list(): readonly (readonly [name: string, meaning: string])[]
}

/** The name a variable should have, the server it is for, and where its value stands now. */
interface Wanted {
  readonly name: string
  readonly server: string
  readonly meaning: string
}

/** An empty collection of variables. */
export function variables(): Variables {
  const known = new Map<string, { readonly value: string | undefined; readonly meaning: string }>()

  const free = (name: string, value: string): boolean => {
    const other = known.get(name)
    return other === undefined || other.value === value
  }
  return {
    forValue(value, { name, server, meaning }) {
      const plain = variableName(name)
      const names = [plain, variableName(`${server}_${name}`)]
      for (let number = 2; !names.some((candidate) => free(candidate, value)); number += 1) {
        names.push(`${plain}_${number}`)
      }
      const chosen = names.find((candidate) => free(candidate, value)) ?? plain
      if (!known.has(chosen)) known.set(chosen, { value, meaning })
      return chosen
    },
    refer(name, meaning) {
      if (!known.has(name)) known.set(name, { value: undefined, meaning })
    },
    list: () => [...known].map(([name, { meaning }]) => [name, meaning]),
  }
}

/** A text as the name of an environment variable. */
export function variableName(text: string): string {
  const name = text
    .toUpperCase()
    .replaceAll(/[^A-Z0-9_]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
  return /^[A-Z]/.test(name) ? name : `MCP_${name}`
}
