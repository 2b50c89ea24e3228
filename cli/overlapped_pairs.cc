// The overlapped pairs of a measured step beside their predictions.
#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "cli/compare_plans.h"
#include "reports/text/format.h"
#include "reports/text/paragraph.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using model::ComparedTime;
using model::OverlappedSlots;
using reports::Align;
using Prediction = OverlappedPairs::Prediction;

std::optional<Prediction> prediction(const model::Timeline& predicted, const model::Timeline& measured,
                                     const std::map<std::string, std::string>& classes) {
  auto slots = model::compare(predicted, measured).overlapped;
  if (!slots) return std::nullopt;
  auto rows = model::grouped(slots->kernels, classes);
  return Prediction{std::move(*slots), std::move(rows)};
}

// Shares below a twentieth of a percent are 0 without a sign.
std::string share(double value) { return reports::signed_percent(std::abs(value) < 5e-4 ? 0.0 : value); }

std::string error_text(const ComparedTime& row) {
  const auto error = row.error();
  return error ? share(*error) : "-";
}

class PairTable {
 public:
  explicit PairTable(const OverlappedPairs& pairs) : pairs_(pairs), table_(columns(pairs)) {
    const OverlappedSlots& slots = pairs.predicted.slots;
    add(fmt::format("mean of {}", slots.errors.size()), slots.each,
        pairs.by_baseline ? &pairs.by_baseline->slots.each : nullptr);
    table_.add_rule();
    for (const ComparedTime& row : slots.phases) add(row.name, row, find(row.name, true));
    if (pairs.predicted.classes.empty()) return;
    table_.add_rule();
    for (const ComparedTime& row : pairs.predicted.classes) add(row.name, row, find(row.name, false));
  }

  std::string to_string() const { return table_.to_string(); }

 private:
  static std::vector<reports::Column> columns(const OverlappedPairs& pairs) {
    std::vector<reports::Column> columns = {{fmt::format("overlapped pair of rank {}", pairs.predicted.slots.rank)},
                                            {"predicted", Align::right},
                                            {"measured", Align::right},
                                            {"error", Align::right}};
    if (pairs.by_baseline) {
      columns.push_back({"baseline", Align::right});
      columns.push_back({"error", Align::right});
    }
    return columns;
  }

  // The baseline's row of that name; null where it has none.
  const ComparedTime* find(const std::string& name, bool phase) const {
    if (!pairs_.by_baseline) return nullptr;
    for (const ComparedTime& row : phase ? pairs_.by_baseline->slots.phases : pairs_.by_baseline->classes)
      if (row.name == name) return &row;
    return nullptr;
  }

  void add(const std::string& name, const ComparedTime& row, const ComparedTime* baseline) {
    std::vector<std::string> cells = {name, reports::duration(row.predicted_s.value_or(0)),
                                      reports::duration(row.measured_s.value_or(0)), error_text(row)};
    if (pairs_.by_baseline && baseline != nullptr) {
      cells.push_back(reports::duration(baseline->predicted_s.value_or(0)));
      cells.push_back(error_text(*baseline));
    }
    table_.add(std::move(cells));
  }

  const OverlappedPairs& pairs_;
  reports::Table table_;
};

std::string errors_text(const OverlappedSlots& slots) {
  return fmt::format("median {}, from {} to {}", share(slots.median_error()), share(slots.errors.front()),
                     share(slots.errors.back()));
}

}  // namespace

std::optional<OverlappedPairs> overlapped_pairs(const ComparisonSubject& predicted, const ComparisonSubject& measured) {
  auto own = prediction(predicted.timeline, measured.timeline, predicted.operator_classes);
  if (!own) return std::nullopt;
  OverlappedPairs pairs{std::move(*own), predicted.baseline, std::nullopt};
  if (!predicted.baseline.empty())
    pairs.by_baseline = prediction(predicted.baseline_timeline, measured.timeline, predicted.operator_classes);
  return pairs;
}

std::string overlapped_pairs_text(const OverlappedPairs& pairs) {
  std::string text = PairTable(pairs).to_string();
  std::string errors = fmt::format("Single pairs: {}", errors_text(pairs.predicted.slots));
  if (pairs.by_baseline)
    errors += fmt::format("; by the baseline {}: {}", pairs.baseline, errors_text(pairs.by_baseline->slots));
  return text + reports::paragraph(errors + ". Phases run beside each other; classes are sums over operators.");
}

}  // namespace plumbline::cli
