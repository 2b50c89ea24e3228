#include "reports/html/detail/html_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/text/format.h"
#include "reports/text/step/describe.h"
#include "reports/text/step/interval_report.h"

namespace plumbline::reports {
namespace {

struct Part {
  std::string css_class;
  std::string name;
  double value = 0;
  std::string text;  // the value as text
};

// Returns the coloured pieces of one stacked bar; `whole` is 100 %.
std::string pieces(const std::vector<Part>& parts, double whole) {
  std::string out;
  for (const Part& part : parts) {
    if (part.value <= 0 || whole <= 0) continue;
    out += fmt::format(R"(<span class="{}" style="width:{:.3f}%" title="{}: {}"></span>)", part.css_class,
                       part.value / whole * 100, escape_html(part.name), part.text);
  }
  return out;
}

std::string legend(const std::vector<Part>& parts) {
  std::string out = "<p class=\"legend\">";
  for (const Part& part : parts) {
    if (part.value <= 0) continue;
    out += legend_item(part.css_class, part.text.empty() ? part.name : fmt::format("{}: {}", part.name, part.text));
  }
  return out + "</p>\n";
}

std::string seconds_and_share(double seconds, double whole) {
  return whole > 0 ? fmt::format("{} ({})", duration(seconds), percent(seconds / whole)) : duration(seconds);
}

std::vector<Part> memory_parts(const model::RankMemory& rank) {
  const std::array<std::pair<const char*, double>, 7> values = {{{"parameters", rank.parameters_bytes},
                                                                 {"gradients", rank.gradients_bytes},
                                                                 {"optimizer", rank.optimizer_bytes},
                                                                 {"activations", rank.activations_bytes},
                                                                 {"temporary", rank.temporary_bytes},
                                                                 {"communication", rank.communication_bytes},
                                                                 {"reserve", rank.reserve_bytes}}};
  std::vector<Part> parts;
  for (const auto& [name, bytes] : values) {
    parts.push_back({fmt::format("memory-{}", name), name, bytes, fmt::format("{} GB", gigabytes(bytes))});
  }
  return parts;
}

}  // namespace

std::string legend_item(const std::string& css_class, const std::string& text) {
  return fmt::format(R"(<span><i class="{}"></i>{}</span> )", css_class, escape_html(text));
}

std::string slot_bar(const model::StepTimes& step) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < step.slots_s.size(); ++i) {
    if (!step.slots_s[i]) continue;
    const auto type = static_cast<model::OpType>(i);
    parts.push_back({fmt::format("slot-{}", model::to_string(type)),
                     fmt::format("{} ({})", describe(type), model::to_string(type)), *step.slots_s[i],
                     seconds_and_share(*step.slots_s[i], step.time_s)});
  }
  if (step.bubble_s) {
    parts.push_back({"idle", "waiting (bubble)", *step.bubble_s, seconds_and_share(*step.bubble_s, step.time_s)});
  }
  if (step.optimizer_s) {
    parts.push_back({"slot-other", "optimizer", *step.optimizer_s, seconds_and_share(*step.optimizer_s, step.time_s)});
  }
  return fmt::format("<div class=\"bar tall\">{}</div>\n{}", pieces(parts, step.time_s), legend(parts));
}

std::string breakdown_bars(const model::StepTimes& step) {
  double largest = 0;
  for (const auto& part : step.breakdown) largest = std::max(largest, part.seconds);
  std::string out = "<div class=\"rows\">\n";
  for (const auto& part : step.breakdown) {
    out += fmt::format(R"(<div>{}</div><div class="bar">{}</div><div class="number">{}</div>)"
                       "\n",
                       escape_html(part.name),
                       pieces({{"class-time", part.name, part.seconds, duration(part.seconds)}}, largest),
                       seconds_and_share(part.seconds, step.time_s));
  }
  return out + "</div>\n";
}

std::string wait_bars(const model::ClusterSpread& cluster) {
  std::string out = "<div class=\"rows\">\n";
  for (std::size_t rank = 0; rank < cluster.rank_wait_s.size(); ++rank) {
    const double waits = cluster.rank_wait_s[rank];
    const Part working{"class-time", "working", cluster.mean_step_s - waits, duration(cluster.mean_step_s - waits)};
    out += fmt::format(R"(<div>rank {}</div><div class="bar">{}</div><div class="number">waits {}</div>)"
                       "\n",
                       rank, pieces({working, {"idle", "waiting", waits, duration(waits)}}, cluster.mean_step_s),
                       duration(waits));
  }
  return out + "</div>\n";
}

std::string interval_bar(const model::StepResult& result) {
  const model::Quantiles& time = result.interval->time_s;
  struct Mark {
    const char *css_class, *name;
    double seconds;
  };
  std::vector<Mark> marks = {{"middle", "middle", time.p50}, {"component", "from components", result.step.time_s}};
  if (result.bound_s) marks.push_back({"bound", "lower bound", *result.bound_s});
  const double low = std::min(std::ranges::min(marks, {}, &Mark::seconds).seconds, time.p10) * 0.98;
  const double whole = std::max(result.step.time_s, time.p90) * 1.02 - low;
  const std::string eight = fmt::format("eight of ten cases: {}", seconds_span(time));
  std::string bar =
      pieces({{"blank", "", time.p10 - low, ""}, {"class-time", "eight of ten", time.p90 - time.p10, ""}}, whole);
  std::string legend = legend_item("class-time", eight);
  for (const Mark& mark : marks) {
    const std::string text = fmt::format("{}: {}", mark.name, duration(mark.seconds));
    bar += fmt::format(R"(<b class="{}" style="left:{:.3f}%" title="{}"></b>)", mark.css_class,
                       (mark.seconds - low) / whole * 100, text);
    legend += legend_item(mark.css_class, text);
  }
  return fmt::format("<div class=\"bar tall\">{}</div>\n<p class=\"legend\">{}</p>\n", bar, legend);
}

std::string part_bars(const model::PredictionInterval& interval) {
  std::string out =
      "<table>\n<tr><th>Source</th><th></th><th class=\"number\">Of the variance</th><th>To measure</th>"
      "<th class=\"number\">Interval then</th></tr>\n";
  for (const model::IntervalPart& part : interval.parts)
    out += fmt::format(
        R"(<tr><td>{}</td><td class="share"><div class="bar">{}</div></td><td class="number">{}</td><td>{}</td>)"
        "<td class=\"number\">{}</td></tr>\n",
        escape_html(part.source), pieces({{"class-time", part.source, part.share, percent(part.share)}}, 1),
        percent(part.share), escape_html(part.measurement),
        part.half_width_after ? plus_minus(*part.half_width_after) : "");
  return out + "</table>\n";
}

std::string memory_bars(const model::Memory& memory) {
  double whole = memory.capacity_bytes;
  for (const model::RankMemory& rank : memory.ranks) {
    double sum = 0;
    for (const Part& part : memory_parts(rank)) sum += part.value;
    whole = std::max({whole, rank.peak_bytes, sum});
  }
  whole *= 1.02;  // keeps the capacity line off the edge
  const std::string line = memory.capacity_bytes > 0
                               ? fmt::format(R"(<b style="left:{:.3f}%"></b>)", memory.capacity_bytes / whole * 100)
                               : "";
  std::string out = "<div class=\"rows\">\n";
  for (const model::RankMemory& rank : memory.ranks) {
    const bool over = rank.peak_bytes > memory.capacity_bytes;
    out += fmt::format(
        R"(<div>rank {} <small>stage{} {}</small></div><div class="bar">{}{}</div><div class="number{}">{} GB</div>)"
        "\n",
        rank.rank, rank.stages.size() == 1 ? "" : "s", stage_list(rank), pieces(memory_parts(rank), whole), line,
        over ? " over" : "", gigabytes(rank.peak_bytes));
  }
  out += "</div>\n<p class=\"legend\">";
  if (!memory.ranks.empty()) {
    for (const Part& part : memory_parts(memory.ranks.front())) out += legend_item(part.css_class, part.name);
  }
  return out + legend_item("capacity", fmt::format("capacity {} GB", gigabytes(memory.capacity_bytes))) + "</p>\n";
}

}  // namespace plumbline::reports
