// Runs in a page: what of it is too wide, too small or too faint.
;(() => {
  const root = document.documentElement
  const shown = [...document.body.querySelectorAll('*')].filter((each) =>
    [...each.childNodes].some((node) => node.nodeType === 3 && node.nodeValue?.trim()),
  )
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number)
  const luminance = (color) => {
    const [red = 0, green = 0, blue = 0] = channels(color).map((value) => {
      const part = value / 255
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  const backOf = (element) => {
    if (!element) return 'rgb(255, 255, 255)'
    const { backgroundColor } = getComputedStyle(element)
    return channels(backgroundColor)[3] === 0 ? backOf(element.parentElement) : backgroundColor
  }
  const contrasts = shown.map((element) => {
    const [one, other] = [getComputedStyle(element).color, backOf(element)].map(luminance)
    const [high, low] = [Math.max(one ?? 0, other ?? 0), Math.min(one ?? 0, other ?? 0)]
    return { contrast: (high + 0.05) / (low + 0.05), of: element.outerHTML.slice(0, 80) }
  })
  return {
    overflow: root.scrollWidth - root.clientWidth,
    size: Math.min(...shown.map((element) => Number.parseFloat(getComputedStyle(element).fontSize))),
    heights: [...document.querySelectorAll('button:not([hidden])')].map(
      (each) => each.getBoundingClientRect().height,
    ),
    texts: contrasts.length,
    faint: contrasts.filter(({ contrast }) => contrast < 4.5).map(({ of }) => of),
  }
})()
