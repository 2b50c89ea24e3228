// The page's style sheet. The same colours mean the same thing in every chart.
#pragma once

#include <string_view>

namespace plumbline::reports {

inline constexpr std::string_view html_style = R"css(
:root { --page: #f6f7f9; --card: #fff; --text: #1c2330; --soft: #5b6676; --line: #d9dee6; --idle: #e4e8ee; --accent: #2f6fd0;
  --f: #3b82d6; --b: #2f9e77; --i: #58b8a4; --w: #e39b2d; --fb: #7b61d1; --other: #8a94a3; --bad: #c23a3a;
  --m1: #3b82d6; --m2: #e39b2d; --m3: #7b61d1; --m4: #2f9e77; --m5: #8a94a3;
  --m6: #c2571a; --m7: #c7ccd4; }
@media (prefers-color-scheme: dark) {
  :root { --page: #12161d; --card: #1b212b; --text: #e6eaf1; --soft: #9aa6b8; --line: #323b49; --idle: #2a323f; --accent: #6aa5f5;
    --f: #5a9bea; --b: #45b88f; --i: #76d0bd; --w: #edb04f; --fb: #9a84ea; --other: #7f8a9b; --bad: #f07f7f;
    --m1: #5a9bea; --m2: #edb04f; --m3: #9a84ea; --m4: #45b88f; --m5: #7f8a9b;
    --m6: #f0935a; --m7: #4a5463; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 16px 48px; max-width: 1120px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, "Segoe UI", "Liberation Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 6px; } p { margin: 0 0 12px; }
small, .soft { color: var(--soft); } section { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 16px 18px; margin-top: 16px; overflow-x: auto; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(155px, 1fr)); gap: 12px; margin-top: 16px; }
.cards div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; }
.cards b { display: block; font-size: 22px; line-height: 1.3; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.over, .warning { color: var(--bad); font-weight: 600; }
svg.pipeline { display: block; width: 100%; min-width: 720px; height: auto; font-size: 12px; }
svg text { fill: var(--soft); } svg .axis { stroke: var(--soft); } svg rect, svg path { stroke: var(--card); stroke-width: .25; }
.rows { display: grid; grid-template-columns: max-content minmax(140px, 1fr) max-content; gap: 4px 12px; align-items: center; }
.bar { position: relative; display: flex; height: 16px; background: var(--idle); border-radius: 3px; overflow: hidden; }
.bar.tall { height: 30px; margin-bottom: 10px; } .bar span { display: block; flex: none; }
.bar b { position: absolute; top: 0; bottom: 0; width: 2px; background: var(--bad); }
.bar b.middle, .legend i.middle { background: var(--text); } .bar b.component, .legend i.component { background: var(--w); }
.legend i.bound { background: var(--bad); } td.share { width: 30%; min-width: 120px; vertical-align: middle; }
.legend + p { margin: 10px 0 0; } body > p:last-child { margin: 14px 0 0; font-size: 13px; }
.legend { margin: 10px 0 0; color: var(--soft); font-size: 13px; } .legend span { white-space: nowrap; margin-right: 14px; display: inline-block; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; vertical-align: -1px; }
.legend i.capacity { width: 2px; } .capacity { background: var(--bad); } .class-time { background: var(--accent); }
.slot-F { background: var(--f); fill: var(--f); } .slot-B { background: var(--b); fill: var(--b); }
.slot-I { background: var(--i); fill: var(--i); } .slot-W { background: var(--w); fill: var(--w); }
.slot-FB { background: var(--fb); fill: var(--fb); } .slot-other { background: var(--other); fill: var(--other); }
.idle { background: var(--idle); fill: var(--idle); } .memory-parameters { background: var(--m1); }
.memory-gradients { background: var(--m2); } .memory-optimizer { background: var(--m3); }
.memory-activations { background: var(--m4); } .memory-temporary { background: var(--m5); }
.memory-communication { background: var(--m6); } .memory-reserve { background: var(--m7); }
.bar .idle, .legend .idle { box-shadow: inset 0 0 0 1px var(--line); }
.kind { border: 1px solid var(--line); border-radius: 10px; padding: 0 8px; font-size: 13px; white-space: nowrap; }
.kind.unproven { border-color: var(--w); } summary { cursor: pointer; font-weight: 600; } pre { overflow-x: auto; font-size: 13px; }
@media print { body { max-width: none; } section { break-inside: avoid; } }
)css";

}  // namespace plumbline::reports
