#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/result/result.h"
#include "reports/charts/charts.h"
#include "reports/text/campaign/campaign_report.h"
#include "reports/text/compare/comparison.h"
#include "reports/text/inputs/measurements_text.h"
#include "reports/text/serving/serving_report.h"
#include "reports/text/step/describe.h"
#include "reports/text/table.h"
#include "reports/text/whatif/whatif_report.h"
#include "sim/campaign/closed_form.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t most_curves = 8;  // more cannot be distinguished

// Whether the values have a constant ratio, so that they are evenly spaced on a logarithmic axis.
bool geometric(const sim::SweepAxis& axis) {
  const std::vector<sim::SweepValue>& values = axis.values;
  if (values.size() < 3 || *values[0].number <= 0 || *values[1].number <= *values[0].number) return false;
  const double factor = *values[1].number / *values[0].number;
  constexpr double tolerance = 1e-6;
  for (std::size_t i = 2; i < values.size(); ++i)
    if (std::abs(*values[i].number / (*values[i - 1].number * factor) - 1) > tolerance) return false;
  return true;
}

// Returns the lines to draw in the sweep's order: all, or of too many the fastest.
std::vector<const sim::SweepLine*> drawn_lines(const sim::SweepResult& result) {
  std::vector<const sim::SweepLine*> lines;
  for (const sim::SweepLine& line : result.lines) lines.push_back(&line);
  if (lines.size() <= most_curves) return lines;
  const auto least_cost = [&](const sim::SweepLine* line) {
    const auto cost = line->best ? sim::cost(result, line->points[*line->best]) : std::nullopt;
    return cost.value_or(std::numeric_limits<double>::infinity());
  };
  std::ranges::stable_sort(lines, {}, least_cost);
  lines.resize(most_curves);
  std::ranges::sort(lines);
  return lines;
}

template <class Quantity>
LineChart::Panel panel_of(const sim::SweepResult& result, const std::vector<const sim::SweepLine*>& lines,
                          const char* title, bool from_zero, Quantity quantity) {
  LineChart::Panel panel{title, from_zero, {}};
  const std::size_t axis = *result.grid.numeric_axis();
  for (const sim::SweepLine* line : lines) {
    auto& series = panel.series.emplace_back();
    series.name = result.grid.line_name(line->points.front());
    for (const std::size_t point : line->points)
      series.points.push_back({*result.grid.value(point, axis).number, quantity(point)});
  }
  return panel;
}

bool any_value(const LineChart::Panel& panel) {
  return std::ranges::any_of(panel.series, [](const auto& series) {
    return std::ranges::any_of(series.points, [](const auto& point) { return point.y.has_value(); });
  });
}

void add_findings(const sim::SweepResult& result, const std::vector<const sim::SweepLine*>& lines, LineChart& chart) {
  const std::size_t axis = *result.grid.numeric_axis();
  for (const sim::SweepLine* line : lines) {
    if (!line->best || line->points[*line->best] != result.best) continue;
    const auto x_at = [&](std::size_t position) { return *result.grid.value(line->points[position], axis).number; };
    chart.bands.push_back(
        {x_at(line->plateau.first), x_at(line->plateau.last), result.grid.line_name(line->points.front())});
    const sim::SweepPoint& best = *result.points[*result.best];
    const double seconds = best.serving ? model::middle_serving(*best.serving).tpot_s : sim::middle_seconds(best);
    chart.marks.push_back({x_at(*line->best), seconds,
                           fmt::format("best: {}, {}", result.grid.value(*result.best, axis).text, duration(seconds))});
  }
}

void add_deployments(const sim::SweepResult& result, const std::vector<const sim::SweepLine*>& lines,
                     LineChart& chart) {
  const auto add = [&](const char* title, auto quantity) {
    auto panel = panel_of(result, lines, title, false, [&](std::size_t i) -> std::optional<double> {
      if (!result.points[i]) return std::nullopt;
      return quantity(model::middle_serving(*result.points[i]->serving));
    });
    if (any_value(panel)) chart.panels.push_back(std::move(panel));
  };
  add("TPOT in s", [](const model::ServingResult& middle) { return middle.tpot_s; });
  add("TTFT at load in s", [](const model::ServingResult& middle) { return middle.ttft_s; });
  add("output tokens/s of a GPU",
      [](const model::ServingResult& middle) { return middle.output_tokens_per_s_per_gpu; });
  add("USD per million output tokens, with prompts",
      [](const model::ServingResult& middle) { return middle.usd_per_million_tokens_all_in; });
}

constexpr std::size_t faster_color = 2, slower_color = 1;  // colours of series

BarChart::Panel panel_of(const model::ResultComparison& comparison,
                         const model::ResultComparison::Difference& difference) {
  const model::Waterfall& waterfall = difference.waterfall;
  const std::string from = comparison.subjects[difference.from].name, to = comparison.subjects[difference.to].name;
  BarChart::Panel panel;
  panel.title = fmt::format("{} to {}: {} ({})", from, to, signed_seconds(waterfall.change_s(), 3),
                            signed_percent(waterfall.change_s() / waterfall.from_s));
  panel.x_title = comparison.deployments() ? "GPU-seconds of 1,000 output tokens" : "step time in s";
  panel.connected = true;
  double at = waterfall.from_s;
  for (const model::WaterfallRow& row : waterfall.rows) {
    const double next = at + row.change_s();
    panel.rows.push_back({row.name,
                          {{at, next, row.change_s() < 0 ? faster_color : slower_color,
                            fmt::format("{}: {} to {}", row.name, duration(row.from_s), duration(row.to_s))}},
                          signed_seconds(row.change_s(), 3)});
    at = next;
  }
  panel.marks = {{waterfall.from_s, fmt::format("{} {}", subject_letter(difference.from), duration(waterfall.from_s))},
                 {waterfall.to_s, fmt::format("{} {}", subject_letter(difference.to), duration(waterfall.to_s))}};
  return panel;
}

// Returns the frontier, whose line goes on beyond the limits, and the points that it dominates.
std::vector<LineChart::Series> frontier_series(const std::vector<model::ServingPoint>& points) {
  LineChart::Series within{"within the limits", {}}, beyond{"beyond the limits", {}}, dominated{"dominated", {}, true};
  for (const model::ServingPoint& point : points) {
    if (!point.dominated && !point.within_limits && beyond.points.empty() && !within.points.empty())
      beyond.points.push_back(within.points.back());
    LineChart::Series& series = point.dominated ? dominated : point.within_limits ? within : beyond;
    series.points.push_back({1 / point.tpot_s, point.output_tokens_per_s_per_gpu});
  }
  if (beyond.points.empty()) within.name = dominated.points.empty() ? "" : "frontier";
  std::vector<LineChart::Series> all = {std::move(within)};
  if (!beyond.points.empty()) all.push_back(std::move(beyond));
  if (!dominated.points.empty()) all.push_back(std::move(dominated));
  return all;
}

using calibrate::Measurement;
using calibrate::Measurements;

// Returns the device with most measurements, the first of equals; nullptr without measurements.
const std::string* busiest_device(const Measurements& all) {
  std::map<std::string, std::size_t> counts;
  for (const Measurement& m : all.values) ++counts[m.device];
  const Measurement* chosen = nullptr;
  for (const Measurement& m : all.values)
    if (chosen == nullptr || counts[m.device] > counts[chosen->device]) chosen = &m;
  return chosen == nullptr ? nullptr : &chosen->device;
}

bool same_kernel(const Measurement& a, const Measurement& b) {
  return a.device == b.device && a.op == b.op && a.name == b.name && a.phase == b.phase && a.format == b.format &&
         a.shape == b.shape;
}

bool has_key(const Measurement& m, std::string_view key) { return m.case_line.find(key) != std::string::npos; }

bool alone_on_all(const Measurement& m) {
  return m.communication_sms.value_or(0) == 0 && m.target_sms.value_or(0) == 0 && m.cache == "hot" &&
         !has_key(m, "by=green") && !has_key(m, "way=") && !has_key(m, "rows_by=");
}

bool overlaps_free_copy(const Measurement& m) {
  return m.communication_sms.value_or(0) > 0 && m.copy_to != "host" && !has_key(m, "copy_gbps=");
}

std::optional<double> nearest_alone(const std::vector<Measurement>& all, std::size_t index) {
  std::optional<std::size_t> nearest;
  const auto distance = [&](std::size_t i) { return i > index ? i - index : index - i; };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!alone_on_all(all[i]) || !same_kernel(all[i], all[index])) continue;
    if (!nearest || distance(i) < distance(*nearest)) nearest = i;
  }
  return nearest ? std::optional(all[*nearest].time.p50) : std::nullopt;
}

enum PanelOf : std::size_t { all_sms, sms_left, others, green, panel_count };

constexpr std::array<const char*, panel_count> panel_titles = {"GEMMs for all SMs", "GEMMs for the SMs left",
                                                               "attention, memory-bound", "green contexts"};

// Returns the panel of a measurement; nullopt when it is in none of them.
std::optional<PanelOf> panel_of(const Measurement& m) {
  const bool targeted = m.target_sms.value_or(0) > 0;
  if (has_key(m, "by=green")) return m.op == "gemm" && !targeted ? std::nullopt : std::optional(green);
  if (m.op != "gemm") return others;
  return targeted ? sms_left : all_sms;
}

void add(LineChart::Panel& panel, const std::string& name, LineChart::Point point, bool scattered = false) {
  auto series = std::ranges::find(panel.series, name, &LineChart::Series::name);
  if (series == panel.series.end()) series = panel.series.insert(series, {name, {}, scattered});
  series->points.push_back(std::move(point));
}

// Adds the kernels of a device by format, those whose operands were in the cache apart.
void add_kernels(LineChart::Panel& panel, const Measurements& all, const std::string& device) {
  for (const Measurement& m : all.values) {
    if (m.device != device || m.communication_sms.value_or(0) > 0) continue;
    if (m.flops.value_or(0) <= 0 || m.bytes.value_or(0) <= 0 || m.time.p50 <= 0) continue;
    const double intensity = *m.flops / *m.bytes, tflops = *m.flops / m.time.p50 / tera;
    const std::string format = m.format.empty() ? m.op : m.format;
    add(panel, m.cache == "hot" ? format + ", operands in the cache" : format,
        {intensity, tflops,
         fmt::format("{}: {} TFLOP/s at {} FLOP/B",
                     joined({m.name, m.phase, m.format, shape_text(m), variant_text(m)}, " "), number(tflops),
                     number(intensity))},
        true);
  }
}

// Adds the flat roof of each peak and the slope of the memory, which ends at the highest roof.
void add_roofs(LineChart::Panel& panel, const model::Device& device) {
  const double bytes_per_s = device.memory_bandwidth.value(), bf16 = device.bf16_peak.value();
  const double fp8 = device.fp8_peak.value(), highest = std::max(bf16, fp8);
  if (bytes_per_s <= 0 || bf16 <= 0) return;
  constexpr double room = 4;  // around the ridges
  double from = bf16 / bytes_per_s / room, to = highest / bytes_per_s * room;
  for (const LineChart::Series& series : panel.series)
    for (const LineChart::Point& point : series.points) from = std::min(from, point.x), to = std::max(to, point.x);
  const auto roof = [&](const char* name, double peak) {
    panel.series.push_back({fmt::format("{} peak: {} TFLOP/s", name, grouped(peak / tera)),
                            {{peak / bytes_per_s, peak / tera}, {to, peak / tera}}});
  };
  roof("BF16", bf16);
  if (fp8 > 0) roof("FP8", fp8);
  panel.series.push_back({fmt::format("memory: {} GB/s", grouped(bytes_per_s / 1e9)),
                          {{from, from * bytes_per_s / tera}, {highest / bytes_per_s, highest / tera}}});
}

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
  const char letter = look_of(block.type).letter;
  std::string label(1, block.marked ? static_cast<char>(letter - 'A' + 'a') : letter);
  if (label.size() + number.size() <= cells) label += number;
  label.resize(cells, '-');
  return label;
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
      const Look& look = look_of(block.type);
      text +=
          color ? fmt::format("\x1b[38;5;16;48;5;{}m{}\x1b[0m", block.marked ? look.marked : look.plain, label) : label;
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

std::string sweep_svg(const sim::SweepResult& result) {
  const sim::SweepAxis& axis = result.grid.axes()[*result.grid.numeric_axis()];
  const std::vector<const sim::SweepLine*> lines = drawn_lines(result);
  const auto& points = result.points;
  const auto step = [&](std::size_t i) {
    return points[i] ? std::optional(sim::middle_seconds(*points[i])) : std::nullopt;
  };
  const auto exposed = [&](std::size_t i) {
    return points[i] && !points[i]->result.rollout ? sim::exposed_seconds(points[i]->result.step) : std::nullopt;
  };
  const auto slowdown = [&](std::size_t i) { return result.gemm_slowdowns[i]; };
  LineChart chart;
  chart.title = fmt::format("{} along {}", model_title(result), axis.key);
  if (lines.size() < result.lines.size())
    chart.title += fmt::format(", the {} fastest of {} combinations", lines.size(), result.lines.size());
  chart.subtitle = fmt::format("{}, fidelity {}; shaded: at most {} slower than the best",
                               std::filesystem::path(result.plan.file).stem().string(), sim::to_string(result.fidelity),
                               percent(result.limits.plateau));
  chart.x_title = axis.key;
  chart.logarithmic = geometric(axis);
  if (sim::of_deployments(result)) {
    add_deployments(result, lines, chart);
    add_findings(result, lines, chart);
    return line_chart_svg(chart);
  }
  chart.panels.push_back(panel_of(result, lines, "step time in s", false, step));
  const auto pair = [&](std::size_t i) {
    return points[i] ? points[i]->result.step.chunk_s[static_cast<std::size_t>(model::OpType::FB)] : std::nullopt;
  };
  if (axis.key.starts_with("routing."))
    if (auto panel = panel_of(result, lines, "overlapped pair of chunks in s", false, pair); any_value(panel))
      chart.panels.push_back(std::move(panel));
  for (auto& panel : {panel_of(result, lines, "exposed communication in s", true, exposed),
                      panel_of(result, lines, "GEMM time over the fastest", false, slowdown)}) {
    if (any_value(panel)) chart.panels.push_back(panel);
  }
  add_findings(result, lines, chart);
  return line_chart_svg(chart);
}

std::string result_comparison_svg(const model::ResultComparison& comparison) {
  BarChart chart;
  const bool deployments = comparison.deployments();
  chart.title = deployments ? "Where the GPU time of output tokens differs" : "Where the step times differ";
  chart.subtitle = fmt::format("{}; each bar begins where the one above it ends",
                               deployments ? "GPU-seconds of 1,000 output tokens" : "seconds of rank 0");
  chart.legend = {{faster_color, "faster"}, {slower_color, "slower"}};
  for (const model::ResultComparison::Difference& difference : comparison.differences)
    chart.panels.push_back(panel_of(comparison, difference));
  return bar_chart_svg(chart);
}

std::string campaign_svg(const CampaignReport& report) {
  const std::vector<sim::CampaignEvent>& events = report.answer.result.events;
  const double ideal_s = sim::ideal_seconds(report.answer.input.phases);
  constexpr double day_s = 86400;
  LineChart::Series progress{"", {{0, 0}}, false, false}, failures{"interruptions", {}, true};
  for (const sim::CampaignEvent& event : events) {
    const double day = event.time_s / day_s, reached = event.progress + event.lost_s / ideal_s;
    if (event.lost_s > 0) progress.points.push_back({day, 100 * std::min(1.0, reached)});
    progress.points.push_back({day, 100 * event.progress});
    if (!event.what.starts_with("failure")) continue;
    failures.points.push_back(
        {day, 100 * event.progress,
         fmt::format("day {:.2f}: {}, {} of steps lost", day, event.what, duration(event.lost_s))});
  }
  LineChart chart;
  chart.title = fmt::format("{} on {}", model_name(report.plan), hardware(report.plan, report.step.device));
  chart.subtitle = fmt::format("one of {} campaigns: {} interruptions, {} days at goodput {}",
                               report.answer.input.seeds, failures.points.size(), fixed(progress.points.back().x, 1),
                               fixed(report.answer.result.mean_goodput, 3));
  chart.x_title = "days";
  chart.panels = {{"tokens trained in %", true, {std::move(progress), std::move(failures)}}};
  return line_chart_svg(chart);
}

std::string serving_svg(const ServingReport& report) {
  const model::ServingResult result = model::middle_serving(report.result);
  const std::vector<std::string> head = serving_head(report);
  LineChart chart;
  chart.title = head.front();
  chart.subtitle = head[1];
  chart.x_title = "interactivity: output tokens/s of a user (1 / TPOT)";
  chart.logarithmic = chart.decimal_ticks = true;
  LineChart::Panel panel{"output tokens/s of a GPU", false, frontier_series(result.frontier), true};
  chart.panels = {std::move(panel)};
  if (result.tpot_s > 0 && !result.frontier.empty())
    chart.marks.push_back({1 / result.tpot_s, result.output_tokens_per_s_per_gpu,
                           fmt::format("the plan: {} requests", grouped(result.concurrency))});
  if (const auto limit = report.inputs.plan.inference.max_tpot_s)
    chart.limits.push_back({1 / *limit, fmt::format("limit: TPOT {}", duration(*limit))});
  return line_chart_svg(chart);
}

LineChart partition_chart(const calibrate::Measurements& measurements) {
  LineChart chart;
  chart.x_title = "SMs that the copy owns";
  const std::string* device = busiest_device(measurements);
  chart.title = device == nullptr ? "No measurements" : *device + ": a kernel overlapped with a copy that reserves SMs";
  chart.subtitle = "time during the copy over time alone on all SMs";
  std::array<LineChart::Panel, panel_count> panels;
  const std::vector<Measurement>& all = measurements.values;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Measurement& m = all[i];
    if (m.device != *device || !overlaps_free_copy(m)) continue;
    const auto panel = panel_of(m);
    const auto alone = nearest_alone(all, i);
    if (!panel || !alone) continue;
    add(panels[*panel], joined({m.name, m.phase == "F" ? "" : m.phase, m.format}, " "),
        {static_cast<double>(*m.communication_sms), m.time.p50 / *alone});
  }
  for (std::size_t i = 0; i < panels.size(); ++i) {
    if (panels[i].series.empty()) continue;
    for (LineChart::Series& series : panels[i].series) std::ranges::sort(series.points, {}, &LineChart::Point::x);
    panels[i].y_title = panel_titles[i];
    chart.panels.push_back(std::move(panels[i]));
  }
  return chart;
}

LineChart roofline_chart(const Measurements& all, const std::vector<topologies::KnownDevice>& devices) {
  LineChart chart;
  chart.x_title = "FLOP per byte of device memory";
  chart.logarithmic = chart.decimal_ticks = true;
  chart.panel_height = 420;
  const std::string* name = busiest_device(all);
  chart.title = name == nullptr ? "No measurements" : *name;
  LineChart::Panel& panel = chart.panels.emplace_back();
  panel.y_title = "TFLOP/s (10^12 FLOP per second)";
  panel.logarithmic = true;
  if (name == nullptr) return chart;
  add_kernels(panel, all, *name);
  std::ranges::sort(panel.series, {}, &LineChart::Series::name);
  const model::Device* device = topologies::find_device(devices, *name);
  chart.subtitle =
      fmt::format("median times; roofs: {}", device == nullptr ? "no datasheet known" : "datasheet, dense");
  if (device != nullptr) add_roofs(panel, *device);
  return chart;
}

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
