/** The members that have a value. */
export function given<Values extends object>(
  values: Values,
): { [Key in keyof Values]?: Exclude<Values[Key], undefined> } {
  // A mapped type can not follow entries: each member is as it was, or gone.
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never
}
