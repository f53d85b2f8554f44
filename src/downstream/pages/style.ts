/** The style of all pages of the gateway: light and dark, down to the width of a phone. */
export const style = `
:root {
  color-scheme: light dark;
  --back: #ffffff; --box: #f5f6f8; --text: #1a1c20; --faint: #555b66; --line: #d5d9e0; --edge: #7d8490; --link: #0b57b0;
  --safe: #0b6b34; --safe-back: #e6f4ea; --reversible: #7d4400; --reversible-back: #fdf0dc; --destructive: #a8141b;
  --destructive-back: #fdeaea; --asked: #5b2a9d; --asked-back: #f1eafb; --plain-back: #eceef2; --hidden: #ffe08a; --dark: #1a1c20;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #15171b; --box: #1e2126; --text: #eceef1; --faint: #b0b6c0; --line: #363b45; --edge: #7d8490; --link: #8ab8ff;
    --safe: #8be0a8; --safe-back: #14301f; --reversible: #f5c076; --reversible-back: #38280f; --destructive: #ffa8a3;
    --destructive-back: #40191a; --asked: #cdb2ff; --asked-back: #2b2140; --plain-back: #2a2e36;
  }
}
* { box-sizing: border-box }
[hidden] { display: none !important }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0; background: var(--back); color: var(--text); overflow-wrap: anywhere }
.bar, main, .foot { margin: 0 auto; max-width: 58rem; padding: 0 1rem }
.narrow .bar, .narrow main, .narrow .foot { max-width: 46rem }
.wide .bar, .wide main, .wide .foot { max-width: 74rem }
main { padding-top: 1.5rem; padding-bottom: 2rem }
h1 { font-size: 1.625rem; line-height: 1.25; margin: 0 0 .75rem; letter-spacing: -.01em }
h1 code { font-size: inherit }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2rem 0 .75rem }
h3 { font-size: 1.0625rem; margin: 0 }
h4 { font-size: .9375rem; color: var(--faint); font-weight: 600; margin: 1rem 0 .25rem }
p { margin: .5rem 0 }
a { color: var(--link); text-underline-offset: .15em }
code, pre { font: .9375rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
pre { background: var(--box); border: 1px solid var(--line); border-radius: .5rem; margin: 0; max-height: 26rem; overflow: auto; padding: .625rem .75rem; white-space: pre-wrap }
mark { background: var(--hidden); border-radius: .2rem; color: var(--dark); padding: 0 .15rem }
dl { display: grid; grid-template-columns: minmax(5.5rem, max-content) minmax(0, 1fr); gap: .25rem 1rem; margin: .75rem 0 }
dt { color: var(--faint) }
dd { margin: 0 }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }

.skip { position: absolute; left: -100rem }
.skip:focus { left: 1rem; top: .5rem; background: var(--back); padding: .5rem .75rem; z-index: 2 }
.top { border-bottom: 1px solid var(--line) }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: 0 1rem; min-height: 3.5rem }
.brand { color: var(--text); display: inline-flex; align-items: center; font-size: 1.125rem; font-weight: 700; gap: .5rem; min-height: 2.75rem; text-decoration: none }
.brand svg { fill: currentColor; height: 1.375rem; width: 1.375rem }
.places { display: flex; flex-wrap: wrap; list-style: none; margin: 0; padding: 0 }
.places a { align-items: center; border-bottom: 3px solid transparent; color: var(--faint); display: inline-flex; gap: .375rem; min-height: 3.5rem; padding: 3px .75rem 0; text-decoration: none }
.places a:hover { color: var(--text) }
.places a[aria-current] { border-color: var(--link); color: var(--text); font-weight: 600 }
.count { background: var(--asked-back); border-radius: 1rem; color: var(--asked); font-size: .875rem; font-weight: 600; line-height: 1.5rem; min-width: 1.5rem; padding: 0 .375rem; text-align: center }
.who { align-items: center; color: var(--faint); display: flex; flex-wrap: wrap; font-size: .9375rem; gap: 0 .75rem; margin-left: auto }
.who form { margin: 0 }
.foot { color: var(--faint); font-size: .9375rem; padding-bottom: 2rem; padding-top: 1rem }
footer { border-top: 1px solid var(--line); margin-top: 1rem }

button, .button { font: inherit; font-weight: 600; min-height: 2.75rem; padding: .5rem 1rem; border-radius: .5rem; border: 1px solid var(--edge); background: var(--back); color: var(--text); cursor: pointer }
.button { align-items: center; display: inline-flex; text-decoration: none }
button:hover, .button:hover { background: var(--box) }
button.plain { border-color: transparent; color: var(--link); font-weight: 400; padding: .5rem }
.buttons { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.25rem }
.buttons button { flex: 1 1 8rem }
.approve, .main { background: var(--text); border-color: var(--text); color: var(--back) }
.approve:hover, .main:hover { background: var(--faint) }
label { display: block; font-weight: 600; margin: 1rem 0 .25rem }
input, select, textarea { font: inherit; width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--edge); border-radius: .5rem; background: var(--back); color: var(--text) }
textarea { font: .9375rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; resize: vertical }
input[type='checkbox'] { width: 1.25rem; min-height: 1.25rem; margin: 0 .5rem 0 0; vertical-align: text-bottom }
summary { cursor: pointer }

.lead { color: var(--faint); margin: .375rem 0 0 }
.size { color: var(--faint); font-size: .9375rem; margin: .25rem 0 0 }
.about { color: var(--faint) }
.notice { border: 2px solid var(--destructive); border-radius: .5rem; padding: .625rem .75rem; margin: 1rem 0 }
.done { background: var(--safe-back); border-radius: .5rem; color: var(--safe); margin: 0 0 1rem; padding: .625rem .75rem }
.risk { font-weight: 600 }
.safe { color: var(--safe) }
.reversible { color: var(--reversible) }
.destructive { color: var(--destructive) }
.state { font-weight: 600; white-space: nowrap }
.state::before { content: ''; display: inline-block; width: .625rem; height: .625rem; border-radius: 50%; margin-right: .375rem; background: currentColor }
.ready { color: var(--safe) }
.starting { color: var(--reversible) }
.unavailable { color: var(--destructive) }
.unavailable::before { border-radius: 1px }
.marks { display: flex; flex-wrap: wrap; gap: .25rem .375rem; margin-top: .375rem }
.mark { background: var(--plain-back); border-radius: .375rem; font-size: .875rem; line-height: 1.3; padding: .125rem .5rem }
.mark.safe { color: var(--safe); background: var(--safe-back) }
.mark.reversible { color: var(--reversible); background: var(--reversible-back) }
.mark.destructive { color: var(--destructive); background: var(--destructive-back); font-weight: 600 }
.mark.asked { color: var(--asked); background: var(--asked-back) }

.approval h2 { font-size: 1rem; margin: 1.5rem 0 .5rem }
.approval .message, .upload .message { font-size: 1.125rem; border-left: .25rem solid var(--line); padding-left: .75rem; white-space: pre-wrap }
.approval dl { grid-template-columns: max-content minmax(0, 1fr); margin: 0 }
.approval ul { padding: 0; list-style: none; margin: 0 }
.approval li { border-top: 1px solid var(--line); padding: .75rem 0 }
.approval li a { font-weight: 600; display: inline-block; padding: .5rem 0 }
.approval label { font-weight: 400 }
.approval summary { padding: .75rem 0 }
.approval details { margin-top: .75rem }
.approval .buttons button { border-width: 2px; border-color: var(--text) }

.front h1 { margin: 0 }
.front h3 { display: inline }
.front details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0 }
.front summary { list-style: none; padding: .625rem .75rem; border-radius: .5rem; position: relative; padding-left: 2rem }
.front summary::-webkit-details-marker { display: none }
.front summary::before { content: ''; position: absolute; left: .875rem; top: 1.125rem; width: .4rem; height: .4rem; border: solid var(--faint); border-width: 0 2px 2px 0; transform: rotate(-45deg) }
.front details[open] > summary::before { transform: rotate(45deg) }
.front summary:hover { background: var(--box) }
.inside { padding: 0 .75rem .75rem 2rem }
.front form { display: flex; flex-wrap: wrap; align-items: end; gap: .5rem; margin: 0 }
.front form div { flex: 1 1 14rem }
.front label { margin-top: 0 }
.copied { display: flex; align-items: flex-start; gap: .5rem; margin: .5rem 0 }
.copied > :first-child { flex: 1; min-width: 0 }
.copied button { min-width: 6.5rem }
.waiting { border: 2px solid var(--asked); border-radius: .75rem; margin-top: 1.5rem; padding: 0 1rem 1rem }
.waiting h2 { margin: .75rem 0 .5rem }
.waiting ul { list-style: none; margin: 0; padding: 0 }
.waiting li { border-top: 1px solid var(--line); padding: .5rem 0 }
.waiting li a { display: inline-block; font-weight: 600; padding: .25rem 0 }
.waiting p { margin: .125rem 0 }
.found { display: flex; flex-wrap: wrap; gap: 0 1rem; color: var(--faint); margin: .5rem 0 .75rem; min-height: 1.5rem }
.found p { margin: 0 }
.front .server { border-radius: .75rem; margin: .75rem 0 }
.front .server > summary { display: flex; flex-wrap: wrap; align-items: baseline; gap: .125rem .75rem; padding-top: .875rem; padding-bottom: .875rem; border-radius: .75rem }
.front .server > summary::before { top: 1.375rem }
.server > .inside { padding-left: .75rem }
.purpose { flex-basis: 100%; color: var(--faint) }
.clients { border: 1px solid var(--line); border-radius: .5rem; margin: .75rem 0 }
.front .clients details { border: 0; margin: 0 }
.front .clients details + details { border-top: 1px solid var(--line); border-radius: 0 }
.links { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: .75rem 0; padding: 0 }
.links a { display: inline-block; padding: .25rem 0 }
.tools { list-style: none; margin: .75rem 0 0; padding: 0 }
.tool { border-top: 1px solid var(--line) }
.front .tool > details { border: 0; margin: 0 }
.tool > details > .inside { padding-bottom: 1rem }
.name { font-weight: 600 }
.also { color: var(--faint) }
.summary { display: block }
.description { white-space: pre-wrap }
.states { list-style: none; margin: 0; padding: 0 }
.states li { display: flex; flex-wrap: wrap; gap: 0 .75rem; border-top: 1px solid var(--line); padding: .5rem 0 }
.states code { flex-basis: 100%; color: var(--faint) }

.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 15rem), 1fr)) }
.card { border: 1px solid var(--line); border-radius: .75rem; padding: .75rem 1rem }
.card h2 { color: var(--faint); font-size: .9375rem; margin: 0 }
.card p { margin: .25rem 0 0 }
.card ul { list-style: none; margin: .25rem 0 0; padding: 0 }
.card .about { display: block; font-size: .9375rem }
.card .ago { color: var(--faint) }
.card .name + .about { display: inline }
.card form { margin-top: .5rem }
.card label { font-size: .9375rem; font-weight: 400; margin-top: .5rem }
.inline { display: flex; flex-wrap: wrap; gap: .5rem }
.inline input { flex: 1 1 8rem; min-width: 0; width: auto }
button.stop { border-color: var(--destructive); color: var(--destructive) }
.card.asks { border-color: var(--asked); background: var(--asked-back) }
.card.ill { border-color: var(--destructive) }
.card.stopped { border-color: var(--destructive); background: var(--destructive-back) }

.search { display: flex; flex-wrap: wrap; align-items: end; gap: .5rem; margin: 1rem 0 0 }
.search > label { align-self: center }
.search > input { flex: 1 1 8rem; min-width: 0; width: auto }
.search div { flex: 1 1 14rem }
.search label { margin-top: 0 }
.row { display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem 1.5rem; margin-top: 1rem }
.row h2 { margin: 0 }
.plots figure { margin: .25rem 0 }
.plots .plot { height: 3rem }
.ranges { display: flex; flex-wrap: wrap; list-style: none; margin: 0; padding: 0 }
.ranges a { border-radius: .5rem; display: inline-block; padding: .375rem .75rem }
.ranges a[aria-current] { background: var(--plain-back); color: var(--text); font-weight: 600; text-decoration: none }
.pair { display: grid; gap: .5rem 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 9rem), 1fr)) }
figure { margin: .5rem 0 }
figcaption { color: var(--faint); display: flex; flex-wrap: wrap; font-size: .9375rem; gap: 0 .75rem }
.plot { background: var(--box); border-radius: .5rem; display: block; height: 5rem; width: 100% }
.waterfall .plot { height: auto; min-height: 2.75rem }
.plot .good, .plot .gateway { fill: #7d8490 }
.plot .held { fill: #b98cff }
.plot .bad { fill: #e5484d }
.plot .server { fill: #3e8ef0 }
.plot .people { fill: #b98cff }
.plot polyline { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke }
.plot .median { stroke: #3e8ef0 }
.plot .tail { stroke: #e5484d }
.plot circle.median { fill: #3e8ef0 }
.plot circle.tail { fill: #e5484d }
.key::before { border-radius: .125rem; content: ''; display: inline-block; height: .75rem; margin-right: .375rem; vertical-align: -.0625rem; width: .75rem }
.key.good::before, .key.gateway::before { background: #7d8490 }
.key.held::before, .key.people::before { background: #b98cff }
.key.bad::before, .key.tail::before { background: #e5484d }
.key.median::before, .key.server::before { background: #3e8ef0 }
#calls-title { margin-top: 1rem }
.calls, .gates { list-style: none; margin: 0; padding: 0 }
.call { align-items: baseline; border-top: 1px solid var(--line); display: grid; gap: 0 1rem; grid-template-columns: minmax(0, 2.5fr) minmax(0, 2.5fr) minmax(0, 2.2fr) 4.5rem 5rem minmax(0, 1.8fr); padding: .5rem 0 }
.call .took, .call .bytes { color: var(--faint); text-align: right }
.call .who-called, .call .when { color: var(--faint) }
.call .end code { font-size: .875rem }
.mark.end-ok { color: var(--faint) }
.mark.end-failed { background: var(--destructive-back); color: var(--destructive); font-weight: 600 }
.mark.end-denied, .mark.end-asked { background: var(--asked-back); color: var(--asked) }
.gate { border-top: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 0 .75rem; padding: .375rem 0 }
.gate .name { flex: 0 0 9rem }
.gate .outcome { flex: 0 0 8rem }
.gate.passed .outcome { color: var(--safe) }
.gate.ended .outcome { color: var(--destructive); font-weight: 600 }
.gate.not_reached { color: var(--faint) }
.gate .about { flex: 1 1 16rem }
.gate .reason { flex-basis: 100%; padding-left: 9.75rem }
.plan { list-style: none; margin: 1rem 0; padding: 0 }
.plan li { border-top: 1px solid var(--line); padding: .5rem 0 }
.plan .reason { display: block }
.mark.changed, .mark.not_undone, .mark.left { background: var(--reversible-back); color: var(--reversible) }
.mark.cannot { background: var(--destructive-back); color: var(--destructive) }
.mark.undone { background: var(--safe-back); color: var(--safe) }

.console details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; padding: 0 .75rem }
.console summary { padding: .625rem 0 }
.console details[open] { padding-bottom: .75rem }

.console h1 .state, .title .state { font-size: 1rem; margin-left: .5rem; vertical-align: .1em }
.back { margin: 0 0 .5rem }
.back a { display: inline-block; padding: .375rem 0 }
.items { list-style: none; margin: .75rem 0; padding: 0 }
.item { border: 1px solid var(--line); border-radius: .75rem; margin: .75rem 0; padding: 1rem }
.item > :first-child { margin-top: 0 }
.item > :last-child { margin-bottom: 0 }
.item h4 { margin-top: .75rem }
.title { font-size: 1.125rem; margin: 0 }
.item h3 a, .title a { display: inline-block; padding: .25rem 0 }
.facts { color: var(--faint); display: flex; flex-wrap: wrap; gap: .125rem 1.25rem; margin: .375rem 0 }
.next { color: var(--faint) }
.item .message, .ended .message { white-space: pre-wrap }
.acts { align-items: center; display: flex; flex-wrap: wrap; gap: .75rem; margin-top: .75rem }
.acts form { margin: 0 }
.decide { margin-top: .75rem; max-width: 32rem }
.decide .buttons { margin-top: .75rem }
.decide p label { font-weight: 400 }
.console details > summary { padding: .625rem 0 }
.console summary .marks { display: inline-flex; margin: 0 0 0 .5rem }
h1 code, h2 code, h3 code { font-size: .95em }
.notes { margin: .5rem 0; padding-left: 1.25rem }
.notes li { padding: .125rem 0 }
.calm { background: var(--safe-back); border-radius: .75rem; margin: 1.5rem 0; padding: 1rem 1.25rem }
.calm p:first-child { color: var(--safe); font-size: 1.125rem; font-weight: 600; margin-top: 0 }
.calm svg { fill: none; height: 1.25rem; stroke: currentColor; stroke-width: 3; vertical-align: -.2em; width: 1.25rem }
.steps { list-style: none; margin: .5rem 0 0; padding: 0 }
.steps li { border-top: 1px solid var(--line); display: flex; gap: .75rem; padding: .5rem 0 }
.steps .mark { align-self: start; flex: 0 0 4.5rem; text-align: center }
.steps p { margin: .125rem 0 }
.console .tool .inside { padding: 0 0 1rem }
.console .tool h3 { font-size: .9375rem }
.chooser { align-items: end; display: flex; flex-wrap: wrap; gap: .75rem 1rem; margin: 1rem 0 }
.chooser div { flex: 1 1 14rem; min-width: 0 }
.chooser label { margin-top: 0 }
.choices { list-style: none; margin: 0; padding: 0 }
.choices li { border-top: 1px solid var(--line); padding: .25rem 0 }
.choices a { display: inline-block; padding: .375rem 0 }
.fields { max-width: 46rem }
.field { margin: 1rem 0 }
.field .size { margin: 0 0 .375rem }
.field .also { font-weight: 400 }
.field textarea { field-sizing: content; min-height: 2.75rem; max-height: 30rem }
.ended { border-left: .25rem solid var(--edge) }
.ended.made, .ended.tried { border-left-color: var(--safe) }
.ended.failed { border-left-color: var(--destructive) }
.ended.asked { border-left-color: var(--asked) }

.report table { border-collapse: collapse; margin: 1rem 0; width: 100% }
.report th, .report td { border-bottom: 1px solid var(--line); padding: .375rem 1rem .375rem 0; text-align: left; vertical-align: top }
.report .score { font-size: 1.25rem; font-weight: 600 }
.report li { margin: .375rem 0 }
.report pre { margin: .5rem 0 }

@media (max-width: 48rem) {
  .timeline { display: grid; grid-template-columns: minmax(0, 1fr) }
  .timeline > .plots { border-top: 1px solid var(--line); margin-top: 1rem; order: 1 }
  .call { grid-template-columns: minmax(0, 1fr) auto auto; gap: .125rem .75rem }
  .call > a { grid-column: 1 / -1 }
  .call .end { grid-column: 1 / -1 }
  .call .who-called, .call .when { grid-column: 1 / -1 }
  .call .took { grid-column: 2; grid-row: 3 }
  .call .bytes { grid-column: 3; grid-row: 3 }
  .call .who-called { grid-column: 1; grid-row: 3 }
  .gate .reason { padding-left: 1rem }
}
@media (max-width: 40rem) {
  .bar { gap: 0 .5rem }
  .top nav { order: 3; flex-basis: 100% }
  .places { justify-content: space-between }
  .places a { min-height: 2.75rem; padding-left: .25rem; padding-right: .25rem }
}
@media (max-width: 40rem) {
  .report table, .report tbody, .report tr, .report td { display: block }
  .report thead { left: -100rem; position: absolute }
  .report tr { border-bottom: 1px solid var(--line); padding: .5rem 0 }
  .report td { border: 0; padding: 0 }
  .report td[data-of]::before { color: var(--faint); content: attr(data-of) ': ' }
}
@media (max-width: 30rem) {
  .inside, .server > .inside { padding-left: .75rem }
  .copied { flex-direction: column; align-items: stretch }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0 }
  dd { margin-bottom: .5rem }
}
@media (prefers-reduced-motion: no-preference) { .front summary::before { transition: transform .15s } }
`
