// The look that charts share, light or dark as the viewer is: classes s0 to s7 colour series.
#pragma once

#include <cstddef>
#include <string_view>

namespace plumbline::reports {

inline constexpr std::size_t chart_colours = 8;

inline constexpr std::string_view chart_style = R"css(<style>
svg { --page: #fff; --text: #1c2330; --soft: #5b6676; --line: #dfe4ea;
  --s0: #2f6fd0; --s1: #c2571a; --s2: #2f8f6b; --s3: #7b4fd1; --s4: #b08a00; --s5: #6b7686; --s6: #c23b6e; --s7: #1f8fa3; }
@media (prefers-color-scheme: dark) { svg { --page: #12161d; --text: #e6eaf1; --soft: #9aa6b8; --line: #2b3340;
  --s0: #6aa5f5; --s1: #f0935a; --s2: #57c79d; --s3: #b096f5; --s4: #e3c04a; --s5: #a3adba; --s6: #f07fa9; --s7: #5cc6d8; } }
text { font: 12px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif; fill: var(--soft); }
.title { font-size: 16px; font-weight: 600; fill: var(--text); } .page { fill: var(--page); }
.grid { stroke: var(--line); } .frame { fill: none; stroke: var(--soft); }
.s0 { fill: var(--s0); stroke: var(--s0); } .s1 { fill: var(--s1); stroke: var(--s1); } .s2 { fill: var(--s2); stroke: var(--s2); }
.s3 { fill: var(--s3); stroke: var(--s3); } .s4 { fill: var(--s4); stroke: var(--s4); } .s5 { fill: var(--s5); stroke: var(--s5); }
.s6 { fill: var(--s6); stroke: var(--s6); } .s7 { fill: var(--s7); stroke: var(--s7); }
</style>
)css";

}  // namespace plumbline::reports
