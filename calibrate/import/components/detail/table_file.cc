#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "calibrate/import/components/detail/tables.h"
#include "model/base/distinct.h"
#include "model/base/statistics.h"
#include "model/base/text.h"

namespace plumbline::calibrate::components {
namespace {

using Keys = std::vector<std::string>;

bool key_before(const std::string& a, const std::string& b) {
  const auto left = model::parse_number<std::int64_t>(a), right = model::parse_number<std::int64_t>(b);
  return left && right ? *left < *right : a < b;
}
struct Before {
  bool operator()(const Keys& a, const Keys& b) const { return std::ranges::lexicographical_compare(a, b, key_before); }
};

// One series: ln of the axis, and ln of each value by record.
struct Series {
  std::vector<std::size_t> records;
  std::vector<double> x;
  std::vector<std::vector<double>> y;  // by value, then by record
};

// Returns by how much interpolation between the records `left` and `right` misses a record between them.
double missed(const Series& series, std::size_t left, std::size_t right, std::size_t at) {
  const double share = (series.x[at] - series.x[left]) / (series.x[right] - series.x[left]);
  double most = 0;
  for (const std::vector<double>& y : series.y)
    most = std::max(most, std::abs(std::expm1(y[left] + share * (y[right] - y[left]) - y[at])));
  return most;
}

// Returns the record that is missed most, and by how much, or nothing when all are kept.
std::optional<std::pair<std::size_t, double>> worst(const Series& series, const std::set<std::size_t>& kept) {
  std::optional<std::pair<std::size_t, double>> found;
  for (auto right = std::next(kept.begin()); right != kept.end(); ++right) {
    const std::size_t left = *std::prev(right);
    for (std::size_t at = left + 1; at < *right; ++at)
      if (const double error = missed(series, left, *right, at); !found || error > found->second) found = {at, error};
  }
  return found;
}

std::set<std::size_t> kept_of(const Series& series, double tolerance) {
  std::set<std::size_t> kept = {0, series.x.size() - 1};
  while (const auto most = worst(series, kept)) {
    if (most->second <= tolerance) break;
    kept.insert(most->first);
  }
  return kept;
}

}  // namespace

std::vector<Record> merged(std::vector<Record> records, Merge merge) {
  std::map<Keys, std::vector<std::vector<double>>, Before> by_keys;
  for (Record& record : records) {
    auto& values = by_keys[std::move(record.keys)];
    values.resize(record.values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i].push_back(record.values[i]);
  }
  std::vector<Record> result;
  for (const auto& [keys, values] : by_keys) {
    Record record{keys, {}, ""};
    for (const std::vector<double>& all : values)
      record.values.push_back(merge == Merge::least ? *std::ranges::min_element(all) : model::quantile(all, 0.5));
    result.push_back(std::move(record));
  }
  return result;
}

std::vector<Record> thinned(std::vector<Record> records, std::size_t axis, double tolerance) {
  std::map<Keys, Series> all;
  for (std::size_t i = 0; i < records.size(); ++i) {
    Keys rest = records[i].keys;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
    Series& series = all[rest];
    series.records.push_back(i);
    series.x.push_back(std::log(model::parse_number<double>(records[i].keys[axis]).value_or(1)));
    series.y.resize(records[i].values.size());
    for (std::size_t value = 0; value < series.y.size(); ++value)
      series.y[value].push_back(std::log(records[i].values[value]));
  }
  std::set<std::size_t> kept;
  for (const auto& [keys, series] : all)
    for (const std::size_t at : kept_of(series, tolerance)) kept.insert(series.records[at]);
  std::vector<Record> result;
  for (const std::size_t index : kept) result.push_back(std::move(records[index]));
  return result;
}

namespace {

// Rounds to significant digits and writes without an exponent: 12345.6 with 4 digits is 12350.
std::string rounded(double value, int digits) {
  const auto text = fmt::format("{:.{}g}", value, digits);
  return fmt::format("{:.15g}", model::parse_number<double>(text).value_or(value));
}

// Returns the value's cell: times joined by ';', watts rounded to whole ones.
std::string cell(const Layout& layout, const Record& record) {
  std::string text;
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const bool power = layout.values[i] == "power_w";
    text += (i == 0 ? "" : ";") +
            (power ? fmt::format("{:.0f}", record.values[i]) : rounded(record.values[i], layout.digits));
  }
  return text;
}

bool by_number(const std::string& a, const std::string& b) {
  return *model::parse_number<double>(a) < *model::parse_number<double>(b);
}

// A table with a line for all keys but the last, whose values are the columns.
struct Grid {
  std::vector<std::string> columns;
  std::map<std::string, std::map<std::string, std::string>> cells;  // by line, then by column
  std::vector<std::string> lines;                                   // in the order of the records
};

Grid grid_of(const Layout& layout, const std::vector<Record>& records) {
  Grid grid;
  for (const Record& record : records) {
    const std::string line = fmt::format("{}", fmt::join(record.keys.begin(), record.keys.end() - 1, ","));
    if (!grid.cells.contains(line)) grid.lines.push_back(line);
    grid.cells[line][record.keys.back()] = cell(layout, record);
    model::add_distinct(grid.columns, record.keys.back());
  }
  std::ranges::sort(grid.columns, by_number);
  return grid;
}

std::string as_grid(const Layout& layout, const Grid& grid) {
  std::string text =
      fmt::format("{},{}\n", fmt::join(layout.keys.begin(), layout.keys.end() - 1, ","), fmt::join(grid.columns, ","));
  for (const std::string& line : grid.lines) {
    text += line;
    const auto& cells = grid.cells.at(line);
    for (const std::string& column : grid.columns) {
      const auto found = cells.find(column);
      text += "," + (found == cells.end() ? "" : found->second);
    }
    text += "\n";
  }
  return text;
}

std::string as_lines(const Layout& layout, const std::vector<Record>& records) {
  std::string text = fmt::format("{},{}\n", fmt::join(layout.keys, ","), fmt::join(layout.values, ","));
  for (const Record& record : records) {
    text += fmt::format("{}", fmt::join(record.keys, ","));
    for (const double value : record.values) text += "," + rounded(value, layout.digits);
    text += "\n";
  }
  return text;
}

// GEMMs are written as a grid of K where at least half of it is filled; aiter's shapes are too scattered.
bool fills_grid(const Layout& layout, const Grid& grid, std::size_t records) {
  return layout.keys.back() == "k" && 2 * records >= grid.lines.size() * grid.columns.size();
}

std::string heading_text(const Layout& layout, const TableHeading& heading, std::size_t times) {
  std::string text = fmt::format("# {}\n# gpu: {}\n# name in the source: {}\n", layout.what, heading.gpu,
                                 fmt::join(heading.names, ", "));
  for (const std::string& source : heading.sources) text += "# source: " + source + "\n";
  for (const std::string& license : heading.licenses) text += "# license: " + license + "\n";
  for (const std::string& note : heading.notes) text += "# note: " + note + "\n";
  text += fmt::format("# rows: {}\n# changed from the source: {} rows read; times rounded to {} digits\n", times,
                      heading.read, layout.digits);
  if (heading.merged > 0) text += fmt::format("# left out: {}, merged with rows of their shape\n", heading.merged);
  for (const auto& [axis, rows] : heading.thinned)
    text += fmt::format("# left out: {}, given within 3 % by interpolation along {}\n", rows, axis);
  for (const auto& [reason, rows] : heading.losses) text += fmt::format("# left out: {}, {}\n", rows, reason);
  return text;
}

}  // namespace

std::string table_text(const Layout& layout, const TableHeading& heading, const std::vector<Record>& records) {
  const bool held = layout.keys.back() == "k";
  const std::string start =
      heading_text(layout, heading, held ? records.size() : records.size() * layout.values.size());
  const Grid grid = held ? grid_of(layout, records) : Grid{};
  if (held && fills_grid(layout, grid, records.size())) return start + as_grid(layout, grid);
  return start + as_lines(layout, records);
}

}  // namespace plumbline::calibrate::components
