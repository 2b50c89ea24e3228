#include "reports/charts/schedule_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "reports/charts/charts.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t least_cells = 10;

// Backgrounds of the 256-colour palette, light enough for black text, in the order of OpType.
struct Look {
  char letter;
  int plain, marked;
  std::size_t color;  // of a bar
  std::string_view meaning;
};
constexpr std::array<Look, 5> looks = {{{'F', 117, 75, 0, "forward"},
                                        {'B', 114, 71, 2, "backward"},
                                        {'I', 80, 37, 7, "input gradient"},
                                        {'W', 222, 208, 4, "weight gradient"},
                                        {'X', 183, 140, 3, "overlapped F and B"}}};

const Look& look_of(model::OpType type) { return looks[static_cast<std::size_t>(type)]; }

char letter_of(const ScheduleBlock& block) {
  const char letter = look_of(block.type).letter;
  return block.marked ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// Returns cells per unit of time. Where all durations are multiples of the shortest one, it gets a whole number of
// cells, so that equal ops have equal widths.
double scale_of(const SchedulePicture& picture, std::size_t cells) {
  const double scale = picture.makespan > 0 ? static_cast<double>(cells) / picture.makespan : 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (const auto& blocks : picture.ranks) {
    for (const ScheduleBlock& block : blocks) {
      const double length = block.end - block.start;
      if (length > 0) shortest = std::min(shortest, length);
    }
  }
  if (!(shortest * scale >= 1) || std::isinf(shortest)) return scale;
  const auto whole = [&](double time) { return std::abs(time / shortest - std::round(time / shortest)) < 1e-6; };
  for (const auto& blocks : picture.ranks) {
    for (const ScheduleBlock& block : blocks)
      if (!whole(block.start) || !whole(block.end)) return scale;
  }
  return std::floor(shortest * scale * (1 + 1e-9)) / shortest;
}

std::string micro_batches_of(const ScheduleBlock& block) {
  if (block.forward < 0) return fmt::format("{}", block.backward);
  return block.backward < 0 ? fmt::format("{}", block.forward) : fmt::format("{}/{}", block.forward, block.backward);
}

// Returns the label, `cells` wide, without escapes.
std::string label_of(const ScheduleBlock& block, std::size_t cells, bool color) {
  const std::string number = micro_batches_of(block);
  if (color) return fmt::format("{:^{}}", number.size() <= cells ? number : "", cells);
  std::string label(1, letter_of(block));
  if (label.size() + number.size() <= cells) label += number;
  label.resize(cells, '-');
  return label;
}

std::string painted(const ScheduleBlock& block, const std::string& label) {
  const Look& look = look_of(block.type);
  return fmt::format("\x1b[38;5;16;48;5;{}m{}\x1b[0m", block.marked ? look.marked : look.plain, label);
}

// Returns the index of the block at the middle of each cell, -1 where the rank is idle.
std::vector<std::ptrdiff_t> sample(const std::vector<ScheduleBlock>& blocks, double scale, std::size_t cells) {
  std::vector<std::ptrdiff_t> owner(cells, -1);
  std::size_t next = 0;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const double time = (static_cast<double>(cell) + 0.5) / scale;
    while (next < blocks.size() && blocks[next].end <= time) ++next;
    if (next < blocks.size() && blocks[next].start <= time) owner[cell] = static_cast<std::ptrdiff_t>(next);
  }
  return owner;
}

std::string row(const std::vector<ScheduleBlock>& blocks, double scale, std::size_t cells, bool color) {
  const std::vector<std::ptrdiff_t> owner = sample(blocks, scale, cells);
  std::string text;
  for (std::size_t begin = 0; begin < cells;) {
    std::size_t end = begin + 1;
    while (end < cells && owner[end] == owner[begin]) ++end;
    if (owner[begin] < 0) {
      text += std::string(end - begin, color ? ' ' : '.');
    } else {
      const ScheduleBlock& block = blocks[static_cast<std::size_t>(owner[begin])];
      const std::string label = label_of(block, end - begin, color);
      text += color ? painted(block, label) : label;
    }
    begin = end;
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

std::array<bool, looks.size()> used_types(const SchedulePicture& picture) {
  std::array<bool, looks.size()> used{};
  for (const auto& blocks : picture.ranks)
    for (const ScheduleBlock& block : blocks) used[static_cast<std::size_t>(block.type)] = true;
  return used;
}

// Returns the signs and their meanings, broken between items into lines of at most `width` columns.
std::string legend(const SchedulePicture& picture, std::size_t margin, std::size_t width, bool color) {
  const std::array<bool, looks.size()> used = used_types(picture);
  std::string text;
  std::size_t column = width;
  const auto add = [&](std::string_view sign, std::size_t sign_width, std::string_view meaning) {
    const std::size_t item = sign_width + 1 + meaning.size();
    const bool broken = column + 2 + item > width;
    text += broken ? fmt::format("{}{:{}}", text.empty() ? "" : "\n", "", margin) : "  ";
    column = (broken ? margin : column + 2) + item;
    text += fmt::format("{} {}", sign, meaning);
  };
  for (std::size_t i = 0; i < looks.size(); ++i) {
    if (!used[i]) continue;
    const std::string swatch = fmt::format("\x1b[48;5;{}m  \x1b[0m", looks[i].plain);
    color ? add(swatch, 2, looks[i].meaning) : add(std::string(1, looks[i].letter), 1, looks[i].meaning);
  }
  if (!color) add(".", 1, "idle");
  if (!picture.mark.empty()) color ? add("darker:", 7, picture.mark) : add("lower case:", 11, picture.mark);
  return text + "\n";
}

// Returns what an op does; of an overlapped pair both of its parts.
std::string description(const ScheduleBlock& block) {
  const auto part = [](std::string_view name, std::int32_t micro_batch, std::int32_t stage) {
    return fmt::format("{} of micro-batch {} on stage {}", name, micro_batch, stage);
  };
  const std::string forward = part("F", block.forward, block.forward_stage);
  if (block.backward < 0) return forward;
  if (block.forward < 0) return part(model::to_string(block.type), block.backward, block.backward_stage);
  return fmt::format("{}, overlapped with {}", forward, part("B", block.backward, block.backward_stage));
}

std::vector<ScheduleBlock> blocks_of(const std::vector<model::ScheduleOp>& ops, std::int32_t ranks) {
  std::vector<ScheduleBlock> blocks;
  blocks.reserve(ops.size());
  for (const model::ScheduleOp& op : ops) {
    const bool forward = op.f_stage >= 0;
    const std::int32_t direction = forward ? op.f_dir : op.b_dir;
    const std::int32_t chunk = (forward ? op.f_stage : op.b_stage) / ranks;
    blocks.push_back({op.type, op.f_mb, op.b_mb, op.f_stage, op.b_stage, direction == 1 || chunk % 2 == 1, 0, 0});
  }
  return blocks;
}

}  // namespace

SchedulePicture schedule_picture(const model::Schedule& schedule, const model::ScheduleEvaluation& evaluation,
                                 const std::vector<std::vector<double>>& end) {
  SchedulePicture picture;
  const model::ScheduleShape& shape = schedule.shape;
  picture.title = fmt::format("{}, {} ranks, {} micro-batches", schedule.kind, shape.ranks, shape.micro_batches);
  picture.makespan = evaluation.makespan;
  if (schedule.directions > 1) picture.mark = "direction 1";
  if (schedule.stages > shape.ranks) picture.mark = "odd chunks";
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    auto& blocks = picture.ranks.emplace_back(blocks_of(schedule.ranks[rank], shape.ranks));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      blocks[i].start = evaluation.start[rank][i];
      blocks[i].end = end[rank][i];
    }
  }
  return picture;
}

std::string picture_text(const SchedulePicture& picture, std::size_t width, bool color) {
  const std::size_t digits = fmt::format("{}", picture.ranks.empty() ? 0 : picture.ranks.size() - 1).size();
  const std::size_t margin = 2 + std::max<std::size_t>(digits, 4) + 2;
  const double scale = scale_of(picture, std::max(width, margin + least_cells) - margin);
  if (scale <= 0) return "";
  const auto cells = static_cast<std::size_t>(std::ceil(picture.makespan * scale - 1e-6));
  std::string text = fmt::format("{:>{}}\n", "rank", margin - 2);
  for (std::size_t rank = 0; rank < picture.ranks.size(); ++rank)
    text += fmt::format("{:>{}}  {}\n", rank, margin - 2, row(picture.ranks[rank], scale, cells, color));
  text += fmt::format("{:{}}0{:>{}}\n", "", margin, fmt::format("{:.6g}", picture.makespan), cells > 1 ? cells - 1 : 1);
  return text + legend(picture, margin, width, color);
}

std::string picture_svg(const SchedulePicture& picture) {
  BarChart chart;
  chart.title = picture.title;
  chart.subtitle = "one row per rank" + (picture.mark.empty() ? "" : "; paler: " + picture.mark);
  chart.plot_width = 1400;
  const std::array<bool, looks.size()> used = used_types(picture);
  for (std::size_t i = 0; i < looks.size(); ++i)
    if (used[i]) chart.legend.push_back({looks[i].color, std::string(looks[i].meaning)});
  BarChart::Panel& panel = chart.panels.emplace_back();
  panel.x_title = fmt::format("time in the unit of the costs; makespan {:.6g}", picture.makespan);
  for (const std::vector<ScheduleBlock>& blocks : picture.ranks) {
    auto& row = panel.rows.emplace_back(BarChart::Row{fmt::format("rank {}", panel.rows.size()), {}, ""});
    for (const ScheduleBlock& block : blocks)
      row.bars.push_back({block.start, block.end, look_of(block.type).color,
                          fmt::format("{}: {:.6g} to {:.6g}", description(block), block.start, block.end),
                          micro_batches_of(block), block.marked});
  }
  return bar_chart_svg(chart);
}

}  // namespace plumbline::reports
