#include "reports/charts/chart_frame.h"

#include <algorithm>
#include <cmath>

#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

// The style: classes s0 to s9 colour series, `strong` and `outline` modify them. Colours are repeated in each rule,
// because viewers other than browsers have no CSS variables.
constexpr std::string_view chart_style = R"css(<style>
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
constexpr std::size_t series_colors = 10;
constexpr double tick_rounding = 1e-9;  // a tick that is beyond an end by less than this is drawn on it

// Returns the distance between ticks of an axis from 0 to `end` > 0: 1, 2 or 5 times a power of ten, so that there are
// about four to eight of them.
double axis_step(double end) {
  const double rough = end / 8;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

// Returns the ticks of a logarithmic axis, from the last one below `low` to the first one above `high`.
std::vector<double> decade_ticks(double low, double high) {
  std::vector<double> found;
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  for (int exponent = static_cast<int>(std::floor(std::log10(low))) - 1; exponent <= last; ++exponent)
    for (const double factor : {1.0, 2.0, 5.0}) found.push_back(factor * std::pow(10, exponent));
  return found;
}

}  // namespace

std::string series_class(std::size_t index) { return fmt::format("s{}", index % series_colors); }

std::size_t position_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
}

double text_width(std::string_view text) {
  constexpr double character = 7.2;
  return character * static_cast<double>(code_points(text));
}

void Scale::include(double value) {
  low_ = std::min(low_, value);
  high_ = std::max(high_, value);
}

void Scale::settle() {
  if (low_ > high_) low_ = logarithmic_ ? 1 : 0, high_ = logarithmic_ ? 10 : 1;
  if (low_ != high_) return;
  const double room = low_ == 0 ? 1 : std::abs(low_) * 0.1;
  low_ -= room;
  high_ += room;
}

void Scale::widen_to_ticks() {
  if (!logarithmic_) {
    settle();
    const double step = axis_step(high_ - low_);
    low_ = std::floor(low_ / step + tick_rounding) * step;
    high_ = std::ceil(high_ / step - tick_rounding) * step;
    return;
  }
  if (low_ > high_) settle();
  const std::vector<double> ticks = decade_ticks(low_, high_);
  const auto above = std::ranges::upper_bound(ticks, low_ * (1 + tick_rounding));
  low_ = *std::prev(above);
  high_ = *std::find_if(above, std::prev(ticks.end()), [this](double tick) { return tick >= high_; });
}

void Scale::add_room(double share) {
  if (low_ > high_) settle();
  const double room = high_ > low_ ? (high_ - low_) * share : std::max(std::abs(low_) * 0.05, 1e-12);
  low_ -= room;
  high_ += room;
}

double Scale::share(double value) const {
  return logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
}

std::vector<double> Scale::ticks() const {
  std::vector<double> found;
  if (logarithmic_) {
    found = decade_ticks(low_, high_);
    std::erase_if(
        found, [this](double tick) { return tick < low_ * (1 - tick_rounding) || tick > high_ * (1 + tick_rounding); });
    return found;
  }
  const double step = axis_step(high_ - low_);
  for (double i = std::ceil(low_ / step - tick_rounding); i * step <= high_ + step * tick_rounding; ++i)
    found.push_back(i * step + 0.0);  // never -0
  return found;
}

void Drawing::title(double left, std::string_view title, std::string_view subtitle) {
  line(R"(<text class="title" x="{0}" y="26">{1}</text><text x="{0}" y="46">{2}</text>)", left, escape_html(title),
       escape_html(subtitle));
}

void Drawing::vertical_grid(const PlotArea& area, const Scale& scale, const std::vector<double>& values,
                            const TickText& text) {
  for (const double value : values) {
    const double x = area.x(scale.share(value));
    add(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)", x, area.top, area.bottom());
    if (text) line(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x, area.bottom() + 18, text(value));
  }
}

void Drawing::horizontal_grid(const PlotArea& area, const Scale& scale, const std::vector<double>& values,
                              const TickText& text) {
  for (const double value : values) {
    const double y = area.y(scale.share(value));
    add(R"(<line class="grid" x1="{0}" x2="{1}" y1="{2:.1f}" y2="{2:.1f}"/>)", area.left, area.right(), y);
    line(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", area.left - 8, y + 4, text(value));
  }
}

void Drawing::frame(const PlotArea& area) {
  line(R"(<rect class="frame" x="{:.6g}" y="{}" width="{}" height="{}"/>)", area.left, area.top, area.width,
       area.height);
}

void Drawing::x_title(const PlotArea& area, std::string_view text) {
  line(R"(<text x="{:.6g}" y="{}" text-anchor="middle">{}</text>)", area.left + area.width / 2, area.bottom() + 38,
       escape_html(text));
}

void Drawing::y_title(const PlotArea& area, std::string_view text) {
  add(R"svg(<text transform="translate(20 {}) rotate(-90)" text-anchor="middle">{}</text>)svg"
      "\n",
      area.top + area.height / 2, escape_html(text));
}

double Drawing::legend_dot(std::string_view css_class, double x, double y, std::string_view text) {
  constexpr double dot = 10;
  line(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"/><text x="{:.1f}" y="{:.1f}">{}</text>)", css_class, x, y,
       x + dot, y + 4, escape_html(text));
  return dot + text_width(text);
}

std::string Drawing::document(double width, double height, std::string_view label, std::string_view own_rules) const {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" )"
      R"(height="{1:.0f}" role="img" aria-label="{2}">)"
      "\n{3}<style>\n{4}</style>\n<rect class=\"page\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n{5}</svg>\n",
      width, height, escape_html(label), chart_style, own_rules, out_);
}

}  // namespace plumbline::reports
