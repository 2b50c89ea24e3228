// What a comparison of timelines adds up: seconds by row, and when kernels ran.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/match/detail/trace_advice.h"
#include "model/result/compared_time.h"
#include "model/result/intervals.h"
#include "model/result/timeline.h"
#include "model/result/timeline_summary.h"

namespace plumbline::calibrate {

// Adds seconds to a row of a side; rows keep the order of their first entries.
class Rows {
 public:
  void add(const std::string& name, std::optional<double> model::ComparedTime::*side, double seconds) {
    const auto [entry, fresh] = index_.try_emplace(name, rows_.size());
    if (fresh) rows_.push_back({name, std::nullopt, std::nullopt});
    std::optional<double>& sum = rows_[entry->second].*side;
    sum = sum.value_or(0) + seconds;
  }
  std::vector<model::ComparedTime> longest_first() {
    std::ranges::stable_sort(rows_, std::greater<>{}, [](const model::ComparedTime& row) {
      return std::max(row.predicted_s.value_or(0), row.measured_s.value_or(0));
    });
    return std::move(rows_);
  }

 private:
  std::vector<model::ComparedTime> rows_;
  std::map<std::string, std::size_t> index_;
};

// When a timeline's kernels compute, and when they communicate, by kind.
struct Busy {
  std::vector<model::Interval> compute;
  std::map<std::string, std::vector<model::Interval>> transfers;
  std::int64_t first_ps = std::numeric_limits<std::int64_t>::max(), last_ps = 0;

  void add(const model::Span& span, const model::Kernel& kernel) {
    const model::Interval when{span.start_ps, span.end_ps() + kernel.gap_ps};
    (model::is_communication(kernel.row) ? transfers[class_of_kernel(kernel)] : compute).push_back(when);
    first_ps = std::min(first_ps, span.start_ps);
    last_ps = std::max(last_ps, span.end_ps());
  }
  std::vector<model::Interval> all_transfers() const {
    std::vector<model::Interval> all;
    for (const auto& [kind, intervals] : transfers) all.insert(all.end(), intervals.begin(), intervals.end());
    return all;
  }
  std::vector<model::Interval> all() const {
    std::vector<model::Interval> all = all_transfers();
    all.insert(all.end(), compute.begin(), compute.end());
    return all;
  }
  double seconds() const { return last_ps > first_ps ? static_cast<double>(last_ps - first_ps) * 1e-12 : 0; }
};

}  // namespace plumbline::calibrate
