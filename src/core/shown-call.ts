/** A call of a tool as people read it: each value at most so many characters long. */
export function displayCall(tool: string, given: Readonly<Record<string, unknown>>, most = 60): string {
  const shown = Object.entries(given)
    .slice(0, ARGUMENTS)
    .map(([name, value]) => `${name}=${shortened(JSON.stringify(value) ?? 'null', most)}`)
  const rest = Object.keys(given).length > ARGUMENTS ? ', …' : ''
  return `${tool}(${shown.join(', ')}${rest})`
}

/** How many arguments are shown. */
const ARGUMENTS = 10

function shortened(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`
}
