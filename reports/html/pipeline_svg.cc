#include "reports/html/detail/pipeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "reports/charts/chart_frame.h"
#include "reports/text/format.h"

namespace plumbline::reports {
namespace {

using model::Span;
using model::Timeline;

constexpr double left = 62, width = 1000, row_height = 18, row_pitch = 21, axis_height = 34;
constexpr std::size_t most_titles = 20'000;  // more hover titles would make the page too large

constexpr std::array<std::string_view, 6> classes = {"F", "B", "I", "W", "FB", "other"};

std::size_t class_of(std::string_view name) {
  const auto found = std::find(classes.begin(), classes.end(), name);
  return found == classes.end() ? classes.size() - 1 : static_cast<std::size_t>(found - classes.begin());
}

bool is_slot(const Span& span) { return span.depth == 0 && span.stream == model::Stream::compute; }

class Picture : private Drawing {
 public:
  Picture(const Timeline& timeline, const std::vector<std::string>& rank_names)
      : timeline_(timeline),
        rank_names_(rank_names),
        scale_((width - left - 1) / static_cast<double>(timeline.end_ps)) {}

  std::string draw() {
    const double rows = row_pitch * timeline_.ranks;
    line(R"(<svg class="pipeline" viewBox="0 0 {} {}" role="img" aria-label="Pipeline schedule: )"
         R"(one row per rank, time to the right">)",
         width, rows + axis_height);
    const auto slots = static_cast<std::size_t>(std::count_if(timeline_.spans.begin(), timeline_.spans.end(), is_slot));
    auto span = timeline_.spans.begin();
    for (std::int32_t rank = 0; rank < timeline_.ranks; ++rank) {
      auto end = span;
      while (end != timeline_.spans.end() && end->rank == rank) ++end;
      add_label(rank);
      slots <= most_titles ? add_rectangles(span, end) : add_paths(span, end);
      span = end;
    }
    add_axis(rows);
    add("</svg>\n");
    return take();
  }

 private:
  using Iterator = std::vector<Span>::const_iterator;

  double x_of(std::int64_t ps) const { return left + static_cast<double>(ps) * scale_; }
  static double y_of(std::int32_t rank) { return row_pitch * rank; }

  void add_label(std::int32_t rank) {
    const auto index = static_cast<std::size_t>(rank);
    const std::string name = index < rank_names_.size() ? rank_names_[index] : fmt::format("rank {}", rank);
    add(R"(<g><title>{}</title><text x="{}" y="{:.1f}" text-anchor="end">rank {}</text>)", escape_html(name), left - 8,
        y_of(rank) + row_height - 5, rank);
    line(R"(<rect class="idle" x="{}" y="{}" width="{:.2f}" height="{}"/></g>)", left, y_of(rank), width - left - 1,
         row_height);
  }

  void add_rectangles(Iterator span, Iterator end) {
    for (; span != end; ++span) {
      if (!is_slot(*span)) continue;
      const std::string& name = timeline_.names[span->name];
      add(R"(<rect class="slot-{}" x="{:.2f}" y="{}" width="{:.2f}" height="{}"><title>{})", classes[class_of(name)],
          x_of(span->start_ps), y_of(span->rank), static_cast<double>(span->duration_ps) * scale_, row_height,
          escape_html(name));
      if (span->micro_batch >= 0) add(", micro-batch {}", span->micro_batch);
      add(": {} from {}</title></rect>\n", duration(static_cast<double>(span->duration_ps) * 1e-12),
          duration(static_cast<double>(span->start_ps) * 1e-12));
    }
  }

  // Adds one path per class and row.
  void add_paths(Iterator span, Iterator end) {
    std::array<std::string, classes.size()> paths;
    for (; span != end; ++span) {
      if (!is_slot(*span)) continue;
      const double length = static_cast<double>(span->duration_ps) * scale_;
      fmt::format_to(std::back_inserter(paths[class_of(timeline_.names[span->name])]), "M{:.2f} {}h{:.2f}v{}h-{:.2f}z",
                     x_of(span->start_ps), y_of(span->rank), length, row_height, length);
    }
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (!paths[i].empty()) line(R"(<path class="slot-{}" d="{}"/>)", classes[i], paths[i]);
    }
  }

  void add_axis(double y) {
    const double end = static_cast<double>(timeline_.end_ps) * 1e-12;
    const double tick = axis_step(end);
    const bool milliseconds = end < 1;
    const double unit = milliseconds ? 1e-3 : 1;
    const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(tick / unit) - 1e-9)));
    for (int i = 0; i * tick <= end * (1 + 1e-9); ++i) {
      const double x = x_of(static_cast<std::int64_t>(i * tick * 1e12));
      add(R"(<line class="axis" x1="{0:.2f}" x2="{0:.2f}" y1="{1}" y2="{2}"/>)", x, y, y + 5);
      line(R"(<text x="{:.2f}" y="{}" text-anchor="middle">{}</text>)", x, y + 17, fixed(i * tick / unit, digits));
    }
    line(R"(<text x="{}" y="{}" text-anchor="middle">time in {}</text>)", (left + width) / 2, y + 31,
         milliseconds ? "milliseconds" : "seconds");
  }

  const Timeline& timeline_;
  const std::vector<std::string>& rank_names_;
  double scale_;
};

}  // namespace

std::string pipeline_svg(const Timeline& timeline, const std::vector<std::string>& rank_names) {
  const bool empty = std::none_of(timeline.spans.begin(), timeline.spans.end(), is_slot);
  return empty || timeline.end_ps <= 0 ? "" : Picture(timeline, rank_names).draw();
}

}  // namespace plumbline::reports
