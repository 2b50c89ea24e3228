#include "calibrate/import/components/detail/thinning.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

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

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

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
      record.values.push_back(merge == Merge::least ? *std::ranges::min_element(all) : median_of(all));
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

}  // namespace plumbline::calibrate::components
