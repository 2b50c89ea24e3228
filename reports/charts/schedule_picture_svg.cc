#include <fmt/format.h>

#include <array>
#include <string_view>

#include "reports/charts/chart_frame.h"
#include "reports/charts/schedule_picture.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

struct BlockLook {
  std::string_view css_class, meaning;
};
constexpr std::array<BlockLook, 5> block_looks = {{{"F", "F forward"},
                                                   {"B", "B backward"},
                                                   {"I", "I input gradient"},
                                                   {"W", "W weight gradient"},
                                                   {"FB", "FB overlapped pair"}}};

// A colour for each kind of op, light and dark.
constexpr std::string_view schedule_rules =
    R"css(.label { font-size: 11px; text-anchor: middle; pointer-events: none; fill: #fff; }
.block { stroke-width: .5; stroke: #fff; } .marked { fill-opacity: .72; } .idle { fill: #e4e8ee; }
.F { fill: #3b82d6; } .B { fill: #2f9e77; } .I { fill: #58b8a4; } .W { fill: #e39b2d; } .FB { fill: #7b61d1; }
@media (prefers-color-scheme: dark) {
.label { fill: #10151c; } .idle { fill: #2a323f; } .block { stroke: #12161d; }
.F { fill: #5a9bea; } .B { fill: #45b88f; } .I { fill: #76d0bd; } .W { fill: #edb04f; } .FB { fill: #9a84ea; }
}
)css";

std::string coordinate(double value) { return fmt::format("{:.6g}", value); }

class ScheduleDrawing : private Drawing {
  static constexpr double left = 64, right = 16, top = 62, drawing_width = 1000, row_height = 22, row_pitch = 26;
  static constexpr double digit_width = 6.6;  // upper estimate for the 11-pixel labels

 public:
  explicit ScheduleDrawing(const SchedulePicture& picture)
      : picture_(picture), scale_(picture.makespan > 0 ? drawing_width / picture.makespan : 0) {}

  std::string draw() {
    const double bottom = top + row_pitch * static_cast<double>(picture_.ranks.size());
    add("<text class=\"title\" x=\"{}\" y=\"22\">{}</text>\n", left, escape_html(picture_.title));
    add_legend();
    for (std::size_t rank = 0; rank < picture_.ranks.size(); ++rank) add_row(rank);
    if (scale_ > 0) add_axis(bottom);
    return document(left + drawing_width + right, bottom + 44,
                    fmt::format("Pipeline schedule {}: one row per rank, time to the right", picture_.title),
                    schedule_rules);
  }

 private:
  void add_legend() {
    std::array<bool, block_looks.size()> used{};
    for (const auto& blocks : picture_.ranks)
      for (const ScheduleBlock& block : blocks) used[static_cast<std::size_t>(block.type)] = true;
    double x = left;
    const auto item = [&](std::string_view css_class, std::string_view meaning) {
      add(R"(<rect class="{}" x="{}" y="36" width="12" height="12"/><text x="{}" y="46">{}</text>)", css_class, x,
          x + 17, meaning);
      add("\n");
      x += 36 + 6.5 * static_cast<double>(meaning.size());
    };
    for (std::size_t i = 0; i < block_looks.size(); ++i)
      if (used[i]) item(block_looks[i].css_class, block_looks[i].meaning);
    item("idle", "idle");
    if (!picture_.mark.empty()) add("<text x=\"{}\" y=\"46\">paler: {}</text>\n", x, escape_html(picture_.mark));
  }

  void add_row(std::size_t rank) {
    const double y = top + row_pitch * static_cast<double>(rank);
    add(R"(<text x="{}" y="{}" text-anchor="end">rank {}</text>)", left - 8, y + row_height - 7, rank);
    add("<rect class=\"idle\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", left, y, drawing_width, row_height);
    for (const ScheduleBlock& block : picture_.ranks[rank]) add_block(block, y);
  }

  void add_block(const ScheduleBlock& block, double y) {
    const double x = left + block.start * scale_, width = (block.end - block.start) * scale_;
    const std::string_view css_class = block_looks[static_cast<std::size_t>(block.type)].css_class;
    add(R"(<rect class="block {}{}" x="{:.2f}" y="{}" width="{:.2f}" height="{}"><title>{}: {} to {}</title></rect>)",
        css_class, block.marked ? " marked" : "", x, y, width, row_height, description(block), coordinate(block.start),
        coordinate(block.end));
    const std::string label = block.forward < 0    ? fmt::format("{}", block.backward)
                              : block.backward < 0 ? fmt::format("{}", block.forward)
                                                   : fmt::format("{}/{}", block.forward, block.backward);
    if (digit_width * static_cast<double>(label.size()) <= width - 2)
      add(R"(<text class="label" x="{:.2f}" y="{}">{}</text>)", x + width / 2, y + row_height - 7, label);
    add("\n");
  }

  static std::string description(const ScheduleBlock& block) {
    const auto part = [](std::string_view name, std::int32_t micro_batch, std::int32_t stage) {
      return fmt::format("{} of micro-batch {} on stage {}", name, micro_batch, stage);
    };
    const bool pair = block.forward >= 0 && block.backward >= 0;
    if (pair)
      return fmt::format("{}, overlapped with {}", part("F", block.forward, block.forward_stage),
                         part("B", block.backward, block.backward_stage));
    return block.forward >= 0 ? part("F", block.forward, block.forward_stage)
                              : part(model::to_string(block.type), block.backward, block.backward_stage);
  }

  void add_axis(double y) {
    const double step = axis_step(picture_.makespan);
    for (int i = 0; i * step <= picture_.makespan * (1 + 1e-9); ++i) {
      const double x = left + i * step * scale_;
      add(R"(<line class="frame" x1="{0:.2f}" x2="{0:.2f}" y1="{1}" y2="{2}"/>)", x, y, y + 5);
      add("<text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x, y + 18, coordinate(i * step));
    }
    add("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">time in the unit of the costs; makespan {}</text>\n",
        left + drawing_width / 2, y + 36, coordinate(picture_.makespan));
  }

  const SchedulePicture& picture_;
  double scale_;
};

}  // namespace

std::string picture_svg(const SchedulePicture& picture) { return ScheduleDrawing(picture).draw(); }

}  // namespace plumbline::reports
