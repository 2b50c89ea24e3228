#include "calibrate/residuals/left_estimate.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "calibrate/measurement/csv_table.h"
#include "model/base/decimal.h"
#include "model/profile/stack.h"
#include "model/result/prediction_interval.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view file_head =
    R"(# ln(measured / predicted) of the training steps in calibrate/published, by set, software stack, precision of GEMMs,
# class of model and hardware: rows, mean and variance of the steps' times, and of the fullest rank's memory.
# drawn: mean and variance of ln(drawn / predicted), which the other sources of uncertainty explain. All rows count that
# have a plan and a time, with what a plan cannot express of them, but those of models of DeepSeek and those that are
# predicted with a datasheet's rates. Made by `plumbline validate --residuals`.
)";

constexpr std::array<std::string_view, 13> cell_columns = {
    "set",      "stack",      "precision",      "model",       "hardware",    "rows",           "mean",
    "variance", "drawn_mean", "drawn_variance", "memory_rows", "memory_mean", "memory_variance"};

Residuals residuals_of(const std::vector<double>& values) {
  Residuals result;
  result.rows = values.size();
  const auto count = static_cast<double>(values.size());
  for (const double value : values) result.mean += value / count;
  for (const double value : values) result.variance += (value - result.mean) * (value - result.mean) / count;
  return result;
}

model::Result<double> number(const CsvTable& table, std::size_t row, std::string_view column) {
  const auto value = model::parse_decimal(table.text(row, column));
  if (!value) return tl::unexpected(table.error(row, column, "is not a number"));
  return value->value();
}

model::Result<Residuals> read_residuals(const CsvTable& table, std::size_t row, const std::string& prefix) {
  Residuals result;
  result.rows = static_cast<std::size_t>(TRY(number(table, row, prefix + "rows")));
  result.mean = TRY(number(table, row, prefix + "mean"));
  result.variance = TRY(number(table, row, prefix + "variance"));
  return result;
}

}  // namespace

StepKind step_kind(const sim::Inputs& inputs) {
  const model::Precision precision = inputs.plan.precision.gemm;
  const bool half = precision == model::Precision::bf16 || precision == model::Precision::fp16;
  return {inputs.profile.stack().empty() ? std::string(model::no_stack) : inputs.profile.stack(),
          half ? "16 bit" : std::string(to_string(precision)),
          inputs.architecture.experts.routed_experts > 0 ? "moe" : "dense"};
}

std::vector<LeftCell> left_cells(const std::vector<LeftRow>& rows) {
  std::map<std::tuple<std::string, StepKind, std::string>, std::vector<const LeftRow*>> groups;
  for (const LeftRow& row : rows) groups[{row.set, row.kind, row.hardware}].push_back(&row);
  std::vector<LeftCell> cells;
  for (const auto& [key, members] : groups) {
    std::vector<double> times, memory, means, variances;
    for (const LeftRow* row : members) {
      times.push_back(row->time);
      if (row->memory) memory.push_back(*row->memory);
      means.push_back(row->drawn_mean);
      variances.push_back(row->drawn_variance);
    }
    const auto& [set, kind, hardware] = key;
    cells.push_back({set, kind, hardware, residuals_of(times), residuals_of(memory), residuals_of(means).mean,
                     residuals_of(variances).mean});
  }
  return cells;
}

std::string left_cells_csv(const std::vector<LeftCell>& cells) {
  std::string text = fmt::format("{}{}\n", file_head, fmt::join(cell_columns, ","));
  for (const LeftCell& cell : cells)
    text += fmt::format("{},{},{},{},{},{},{:.4f},{:.5f},{:.4f},{:.5f},{},{:.4f},{:.5f}\n", cell.set, cell.kind.stack,
                        cell.kind.precision, cell.kind.model, cell.hardware, cell.time.rows, cell.time.mean,
                        cell.time.variance, cell.drawn_mean, cell.drawn_variance, cell.memory.rows, cell.memory.mean,
                        cell.memory.variance);
  return text;
}

model::Result<std::vector<LeftCell>> load_left_cells(const std::string& path) {
  const auto table = TRY(CsvTable::read(path, {cell_columns.begin(), cell_columns.end()}));
  std::vector<LeftCell> cells;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    LeftCell cell{table.text(row, "set"),
                  {table.text(row, "stack"), table.text(row, "precision"), table.text(row, "model")},
                  table.text(row, "hardware")};
    cell.time = TRY(read_residuals(table, row, ""));
    cell.memory = TRY(read_residuals(table, row, "memory_"));
    cell.drawn_mean = TRY(number(table, row, "drawn_mean"));
    cell.drawn_variance = TRY(number(table, row, "drawn_variance"));
    cells.push_back(std::move(cell));
  }
  return cells;
}

namespace {

// Effects: stack, precision, class of model, set, cell.
constexpr std::size_t effects = 5;
using Levels = std::array<std::string, effects>;     // an empty level is shared with no other
using Deviations = std::array<double, effects>;      // standard deviations of the effects
constexpr double mu_deviation = 0.15, usual = 0.10;  // priors: of mu, and of all deviations (half-normal)
constexpr double smallest_part = 0.1;                // of the variance, where draws explain as much as there is

struct Observation {
  double value = 0, noise = 0;  // noise: variance
  Levels levels;
};

struct Estimate {
  double mean = 0, variance = 0;
};
using Weighted = std::vector<std::pair<Estimate, double>>;  // estimates with weights that add up to 1

// Returns the variance of the normal distribution with this mean in whose band eight of ten values of the mixture lie.
// A mixture of narrow and wide estimates has long tails, which its own variance would make a wide band of.
double band_variance(const Weighted& mixture, double mean) {
  const auto inside = [&](double half) {
    double sum = 0;
    for (const auto& [estimate, weight] : mixture) {
      const double scale = std::sqrt(2 * estimate.variance);
      sum += weight / 2 *
             (std::erf((mean + half - estimate.mean) / scale) - std::erf((mean - half - estimate.mean) / scale));
    }
    return sum;
  };
  double low = 0, high = 2;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (inside(middle) < 0.8 ? low : high) = middle;
  }
  return std::pow(high / model::normal_p90, 2);
}

using Shared = std::array<bool, effects>;

Shared shared_effects(const Levels& a, const Levels& b) {
  Shared both{};
  for (std::size_t i = 0; i < effects; ++i) both[i] = !a[i].empty() && a[i] == b[i];
  return both;
}

double covariance_of(const Shared& shared, const Deviations& deviations, double mu) {
  double sum = mu * mu;
  for (std::size_t i = 0; i < effects; ++i)
    if (shared[i]) sum += deviations[i] * deviations[i];
  return sum;
}

// The effects that a value shares with each one that was seen, and those with each other: compared once, because every
// choice of deviations needs them.
struct AllShared {
  std::vector<Shared> with_new;
  std::vector<std::vector<Shared>> with_seen;  // of each value with those before it, and itself
};

AllShared all_shared(const std::vector<Observation>& seen, const Levels& levels) {
  AllShared all;
  for (const Observation& a : seen) {
    all.with_new.push_back(shared_effects(a.levels, levels));
    std::vector<Shared>& row = all.with_seen.emplace_back();
    for (std::size_t j = 0; j < all.with_new.size(); ++j) row.push_back(shared_effects(a.levels, seen[j].levels));
  }
  return all;
}

// Predicts a value of these levels for one choice of deviations; returns the logarithm of their likelihood too.
std::pair<Estimate, double> predict(const std::vector<Observation>& seen, const AllShared& shared,
                                    const Deviations& deviations, double mu) {
  const auto count = static_cast<Eigen::Index>(seen.size());
  Eigen::MatrixXd covariance(count, count);
  Eigen::VectorXd values(count), with_new(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const auto row = static_cast<std::size_t>(i);
    values(i) = seen[row].value;
    with_new(i) = covariance_of(shared.with_new[row], deviations, mu);
    for (Eigen::Index j = 0; j <= i; ++j)
      covariance(i, j) = covariance_of(shared.with_seen[row][static_cast<std::size_t>(j)], deviations, mu);
    covariance(i, i) += seen[row].noise;
  }
  const Eigen::LLT<Eigen::MatrixXd, Eigen::Lower> factor(covariance);
  const Eigen::VectorXd y = factor.matrixL().solve(values), z = factor.matrixL().solve(with_new);
  double own = mu * mu;
  for (const double deviation : deviations) own += deviation * deviation;
  const Eigen::MatrixXd lower = factor.matrixL();
  return {{z.dot(y), own - z.squaredNorm()}, -y.squaredNorm() / 2 - lower.diagonal().array().log().sum()};
}

// Averages the predictions over the deviations by likelihood and prior.
Estimate average(const std::vector<Observation>& seen, const Levels& levels, const std::vector<Deviations>& grid,
                 double mu, double prior) {
  Weighted all;
  double best = -std::numeric_limits<double>::infinity();
  const AllShared shared = all_shared(seen, levels);
  for (const Deviations& deviations : grid) {
    all.push_back(predict(seen, shared, deviations, mu));
    for (const double deviation : deviations) all.back().second -= deviation * deviation / (2 * prior * prior);
    best = std::max(best, all.back().second);
  }
  double weights = 0, mean = 0;
  for (auto& [estimate, weight] : all) weights += weight = std::exp(weight - best);
  for (auto& [estimate, weight] : all) mean += (weight /= weights) * estimate.mean;
  return {mean, band_variance(all, mean)};
}

const Residuals& residuals(const LeftCell& cell, LeftOf quantity) {
  return quantity == LeftOf::time ? cell.time : cell.memory;
}

// Returns the deviation of rows within a set of the stack that is not among these. Its logarithm is normal over stacks
// and sets; that of n rows in c cells is seen with a variance of 1 / (2 (n - c)). The mean of the deviations themselves
// is returned: eight of ten rows follow it more closely than the root of their mean square, which the widest decides.
double within_sets(const std::vector<LeftCell>& cells, const std::string& stack, LeftOf quantity) {
  std::map<std::pair<std::string, std::string>, std::pair<double, double>> sums;  // squares and degrees of freedom
  for (const LeftCell& cell : cells) {
    const Residuals& rows = residuals(cell, quantity);
    auto& [squares, freedom] = sums[{cell.set, cell.kind.stack}];
    squares += static_cast<double>(rows.rows) * rows.variance;
    freedom += static_cast<double>(rows.rows) - 1;
  }
  std::vector<Observation> seen;
  for (const auto& [of, sum] : sums)
    if (sum.first > 0 && sum.second > 0)
      seen.push_back(
          {std::log(std::sqrt(sum.first / sum.second) / usual), 0.5 / sum.second, {of.second, "", "", of.first, ""}});
  std::vector<Deviations> grid;
  for (const double of_stack : {0.0, 0.2, 0.4, 0.7})
    for (const double of_set : {0.1, 0.2, 0.35, 0.5, 0.7, 1.0}) grid.push_back({of_stack, 0, 0, of_set, 0});
  const Estimate logarithm = average(seen, {stack, "", "", "", ""}, grid, 1, 1);
  return usual * std::exp(logarithm.mean + logarithm.variance / 2);
}

std::vector<Deviations> deviations_grid() {
  std::vector<Deviations> grid;
  for (const double stack : {0.0, 0.02, 0.04, 0.07, 0.10, 0.15})
    for (const double kind : {0.0, 0.02, 0.05})
      for (const double set : {0.01, 0.03, 0.05, 0.08, 0.12, 0.20})
        for (const double cell : {0.0, 0.02, 0.05}) grid.push_back({stack, kind, kind, set, cell});
  return grid;
}

// Returns the mean over sets of what draws explain of the variance of their rows.
double explained(const std::vector<LeftCell>& cells) {
  std::map<std::string, std::pair<double, double>> sums;
  for (const LeftCell& cell : cells) {
    sums[cell.set].first += static_cast<double>(cell.time.rows) * cell.drawn_variance;
    sums[cell.set].second += static_cast<double>(cell.time.rows);
  }
  double mean = 0;
  for (const auto& [set, sum] : sums) mean += sum.first / sum.second / static_cast<double>(sums.size());
  return mean;
}

std::string basis(const std::vector<LeftCell>& cells, const std::string& stack, LeftOf quantity) {
  std::size_t rows = 0, of_stack = 0;
  std::set<std::string> sets;
  for (const LeftCell& cell : cells) {
    rows += residuals(cell, quantity).rows;
    sets.insert(cell.set);
    if (cell.kind.stack == stack) of_stack += residuals(cell, quantity).rows;
  }
  return fmt::format("{} steps of {} sets, {} of this stack", rows, sets.size(), of_stack);
}

}  // namespace

std::optional<sim::Left> left_of(const std::vector<LeftCell>& cells, const StepKind& kind,
                                 const std::set<std::string>& without_sets, LeftOf quantity) {
  std::vector<LeftCell> used;
  for (const LeftCell& cell : cells)
    if (!without_sets.contains(cell.set) && residuals(cell, quantity).rows > 0) used.push_back(cell);
  if (used.empty()) return std::nullopt;
  const bool time = quantity == LeftOf::time;
  const double own = within_sets(used, kind.stack, quantity);
  std::vector<Observation> seen;
  for (const LeftCell& cell : used) {
    const Residuals& rows = residuals(cell, quantity);
    const double scatter = within_sets(used, cell.kind.stack, quantity);
    seen.push_back({rows.mean - (time ? cell.drawn_mean : 0),
                    scatter * scatter / static_cast<double>(rows.rows),
                    {cell.kind.stack, cell.kind.precision, cell.kind.model, cell.set, std::to_string(seen.size())}});
  }
  const Estimate common =
      average(seen, {kind.stack, kind.precision, kind.model, "", ""}, deviations_grid(), mu_deviation, usual);
  const double total = common.variance + own * own;
  const double part = time ? std::max(smallest_part, 1 - explained(used) / total) : 1;
  return sim::Left{common.mean, std::sqrt(common.variance * part), own * std::sqrt(part),
                   basis(used, kind.stack, quantity)};
}

}  // namespace plumbline::calibrate
