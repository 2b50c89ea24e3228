// The look that charts share, light or dark as the viewer is: classes s0 to s9 colour series, strong and outline what
// stands before them.
#pragma once

#include <cstddef>
#include <string_view>

namespace plumbline::reports {

inline constexpr std::size_t chart_colours = 10;

// Colours stand in each rule: viewers other than browsers know no variables.
inline constexpr std::string_view chart_style = R"css(<style>
text { font: 12px system-ui, "Liberation Sans", "DejaVu Sans", sans-serif; }
.title { font-size: 16px; font-weight: 600; } .frame, .outline { fill: none; }
text { fill: #5b6676; } .title, .strong { fill: #1c2330; } .page { fill: #fff; }
.grid { stroke: #dfe4ea; } .frame { stroke: #5b6676; } .outline { stroke: #1c2330; }
.s0 { fill: #2f6fd0; stroke: #2f6fd0; }
.s1 { fill: #c2571a; stroke: #c2571a; }
.s2 { fill: #2f8f6b; stroke: #2f8f6b; }
.s3 { fill: #7b4fd1; stroke: #7b4fd1; }
.s4 { fill: #b08a00; stroke: #b08a00; }
.s5 { fill: #6b7686; stroke: #6b7686; }
.s6 { fill: #c23b6e; stroke: #c23b6e; }
.s7 { fill: #1f8fa3; stroke: #1f8fa3; }
.s8 { fill: #8a5a3c; stroke: #8a5a3c; }
.s9 { fill: #4d7d1f; stroke: #4d7d1f; }
@media (prefers-color-scheme: dark) {
text { fill: #9aa6b8; } .title, .strong { fill: #e6eaf1; } .page { fill: #12161d; }
.grid { stroke: #2b3340; } .frame { stroke: #9aa6b8; } .outline { stroke: #e6eaf1; }
.s0 { fill: #6aa5f5; stroke: #6aa5f5; }
.s1 { fill: #f0935a; stroke: #f0935a; }
.s2 { fill: #57c79d; stroke: #57c79d; }
.s3 { fill: #b096f5; stroke: #b096f5; }
.s4 { fill: #e3c04a; stroke: #e3c04a; }
.s5 { fill: #a3adba; stroke: #a3adba; }
.s6 { fill: #f07fa9; stroke: #f07fa9; }
.s7 { fill: #5cc6d8; stroke: #5cc6d8; }
.s8 { fill: #c99a7c; stroke: #c99a7c; }
.s9 { fill: #9fce6e; stroke: #9fce6e; }
}
</style>
)css";

}  // namespace plumbline::reports
