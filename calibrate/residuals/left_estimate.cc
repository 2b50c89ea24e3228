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
#include "model/base/text.h"
#include "model/profile/stack.h"
#include "model/result/result.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view file_head =
    R"(# ln(measured / predicted) of the steps and deployments in calibrate/published, by what was measured, set, software
# stack, precision of GEMMs, class of model and hardware: rows and their mean. deviation: of all rows of the set's stack
# and class around these means; eight of ten are off by less than 1.28 of it. drawn: mean and variance of
# ln(drawn / predicted), which the other sources of uncertainty explain. All rows count that have a plan and a value,
# with what a plan cannot express of them, but steps of models of DeepSeek, steps that are predicted with a datasheet's
# rates, and deployments under another load than stated. Made by `plumbline validate --residuals`.
)";

constexpr std::array<std::string_view, 11> cell_columns = {"of",        "set",        "stack",         "precision",
                                                           "model",     "hardware",   "rows",          "mean",
                                                           "deviation", "drawn_mean", "drawn_variance"};

constexpr double eight_of_ten = 0.8;

constexpr std::array<std::string_view, 5> quantity_names = {"time", "memory", "TPOT", "TTFT", "tokens/s"};

double mean_of(const std::vector<double>& values) {
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  return mean;
}

// Parses a number of a column whose values are logarithms of ratios, their deviations or variances.
model::Result<double> number(const CsvTable& table, std::size_t row, std::string_view column, double least) {
  constexpr double most = 10;  // a factor of 22,000: no measurement of the same thing is as far from its prediction
  const auto value = model::parse_decimal(table.text(row, column));
  if (!value) return table.wrong(row, column, "is not a number");
  if (value->value() < least || value->value() > most)
    return table.wrong(row, column, fmt::format("{} is not from {} to {}", value->text(), least, most));
  return value->value();
}

StepKind kind_of(const sim::Inputs& inputs, model::Precision precision) {
  const bool half = precision == model::Precision::bf16 || precision == model::Precision::fp16;
  return {inputs.profile.stack().empty() ? std::string(model::no_stack) : inputs.profile.stack(),
          half ? "16 bit" : std::string(to_string(precision)),
          inputs.architecture.experts.routed_experts > 0 ? "moe" : "dense"};
}

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
  double low = 0, high = 10;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (inside(middle) < eight_of_ten ? low : high) = middle;
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

// Variance of the logarithm of a set's deviation times its degrees of freedom, n - c of n rows in c cells. A quantile q
// of share p is seen with a variance of p (1 - p) / (n f(q)^2); of absolute normal values, at p = 0.8, q is 1.2816
// standard deviations, where their density f is 0.351 over one: 0.16 / (0.351 * 1.2816)^2.
constexpr double quantile_noise = 0.79;

// Returns the deviation with which eight of ten rows of a set of this kind, which is not among these, lie around what
// they share. The logarithm of the sets' deviations is normal over stacks, classes of models and sets.
double within_sets(const std::vector<LeftCell>& cells, const StepKind& kind) {
  struct Scatter {
    double deviation = 0, freedom = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Scatter> scatters;
  for (const LeftCell& cell : cells) {
    Scatter& of = scatters[{cell.set, cell.kind.stack, cell.kind.model}];
    of.deviation = cell.deviation;
    of.freedom += static_cast<double>(cell.rows) - 1;
  }
  std::vector<Observation> seen;
  for (const auto& [of, scatter] : scatters)
    if (scatter.deviation > 0 && scatter.freedom > 0)
      seen.push_back({std::log(scatter.deviation / usual),
                      quantile_noise / scatter.freedom,
                      {std::get<1>(of), "", std::get<2>(of), std::get<0>(of), ""}});
  std::vector<Deviations> grid;
  for (const double of_stack : {0.0, 0.2, 0.4, 0.7})
    for (const double of_class : {0.0, 0.3, 0.6})
      for (const double of_set : {0.1, 0.2, 0.35, 0.5, 0.7, 1.0}) grid.push_back({of_stack, 0, of_class, of_set, 0});
  const Estimate logarithm = average(seen, {kind.stack, "", kind.model, "", ""}, grid, 1, 1);
  // Rows of a set whose deviation is not known are a mixture of normal values over the lognormal deviation.
  constexpr int points = 40;
  constexpr double reach = 4;
  Weighted mixture;
  double weights = 0;
  for (int point = -points; point <= points; ++point) {
    const double z = reach * point / points, weight = std::exp(-z * z / 2);
    const double deviation = usual * std::exp(logarithm.mean + z * std::sqrt(logarithm.variance));
    mixture.push_back({{0, deviation * deviation}, weight});
    weights += weight;
  }
  for (auto& [estimate, weight] : mixture) weight /= weights;
  return std::sqrt(band_variance(mixture, 0));
}

std::vector<Deviations> deviations_grid(double unit) {
  std::vector<Deviations> grid;
  for (const double stack : {0.0, 0.02, 0.04, 0.07, 0.10, 0.15})
    for (const double kind : {0.0, 0.02, 0.05})
      for (const double set : {0.01, 0.03, 0.05, 0.08, 0.12, 0.20})
        for (const double cell : {0.0, 0.02, 0.05})
          grid.push_back({unit * stack, unit * kind, unit * kind, unit * set, unit * cell});
  return grid;
}

// Returns the mean over sets of what draws explain of the variance of their rows, of this class of models where sets
// have it: loads of experts are drawn of one class alone.
double explained(const std::vector<LeftCell>& cells, const std::string& model) {
  const bool any = std::ranges::find(cells, model, [](const LeftCell& cell) { return cell.kind.model; }) != cells.end();
  std::map<std::string, std::pair<double, double>> sums;
  for (const LeftCell& cell : cells) {
    if (any && cell.kind.model != model) continue;
    sums[cell.set].first += static_cast<double>(cell.rows) * cell.drawn.variance;
    sums[cell.set].second += static_cast<double>(cell.rows);
  }
  double mean = 0;
  for (const auto& [set, sum] : sums) mean += sum.first / sum.second / static_cast<double>(sums.size());
  return mean;
}

// Returns how many times wider than steps the rows may lie: the priors' unit. Times to the first token are off by
// factors. Where the rows of one set scatter, the next set may lie as far from it.
double unit_of(const std::vector<LeftCell>& cells) {
  double square = 0;
  for (const LeftCell& cell : cells) {
    const double mean = cell.mean - cell.drawn.mean;
    square += (mean * mean + cell.deviation * cell.deviation) / static_cast<double>(cells.size());
  }
  return std::max(1.0, std::sqrt(square) / mu_deviation);
}

// Returns the cells of a quantity. Sets of deployments that state a rate of tokens and no time of one count with the
// inverse of the rate: what makes tokens slow makes their rate low.
std::vector<LeftCell> cells_of(const std::vector<LeftCell>& cells, const std::set<std::string>& without_sets,
                               LeftOf quantity) {
  std::vector<LeftCell> found;
  std::set<std::string> sets;
  for (const LeftCell& cell : cells) {
    if (cell.of != quantity || without_sets.contains(cell.set)) continue;
    found.push_back(cell);
    sets.insert(cell.set);
  }
  if (quantity != LeftOf::tpot) return found;
  for (LeftCell cell : cells_of(cells, without_sets, LeftOf::rate)) {
    if (sets.contains(cell.set)) continue;
    cell.mean = -cell.mean;
    cell.drawn.mean = -cell.drawn.mean;
    found.push_back(std::move(cell));
  }
  return found;
}

std::string basis(const std::vector<LeftCell>& cells, const std::string& stack, bool serves) {
  std::size_t rows = 0, of_stack = 0;
  std::set<std::string> sets;
  for (const LeftCell& cell : cells) {
    rows += cell.rows;
    sets.insert(cell.set);
    if (cell.kind.stack == stack) of_stack += cell.rows;
  }
  return fmt::format("{} {} of {} sets, {} of this {}", rows, serves ? "deployments" : "steps", sets.size(), of_stack,
                     serves ? "engine" : "stack");
}

}  // namespace

std::string_view to_string(LeftOf quantity) { return quantity_names[static_cast<std::size_t>(quantity)]; }

std::optional<LeftOf> left_of_name(std::string_view name) {
  const auto found = std::ranges::find(quantity_names, name);
  if (found == quantity_names.end()) return std::nullopt;
  return static_cast<LeftOf>(found - quantity_names.begin());
}

StepKind step_kind(const sim::Inputs& inputs) { return kind_of(inputs, inputs.plan.precision.gemm); }

StepKind serving_kind(const sim::Inputs& inputs) { return kind_of(inputs, inputs.plan.inference.weights); }

std::vector<LeftCell> left_cells(const std::vector<LeftRow>& rows) {
  std::map<std::tuple<LeftOf, std::string, StepKind, std::string>, std::vector<const LeftRow*>> groups;
  for (const LeftRow& row : rows) groups[{row.of, row.set, row.kind, row.hardware}].push_back(&row);
  std::vector<LeftCell> cells;
  using Scattered = std::tuple<LeftOf, std::string, std::string, std::string>;
  const auto scattered = [](const LeftCell& cell) {
    return Scattered{cell.of, cell.set, cell.kind.stack, cell.kind.model};
  };
  std::map<Scattered, std::vector<double>> distances;
  for (const auto& [key, members] : groups) {
    std::vector<double> values, means, variances;
    for (const LeftRow* row : members) {
      values.push_back(row->value);
      means.push_back(row->drawn.mean);
      variances.push_back(row->drawn.variance);
    }
    const auto& [of, set, kind, hardware] = key;
    cells.push_back({of, set, kind, hardware, values.size(), mean_of(values), 0, {mean_of(means), mean_of(variances)}});
    const auto count = static_cast<double>(values.size());
    if (values.size() > 1)  // The mean of few rows is nearer to them than what they share is (Bessel's correction).
      for (const double value : values)
        distances[scattered(cells.back())].push_back(std::abs(value - cells.back().mean) *
                                                     std::sqrt(count / (count - 1)));
  }
  for (LeftCell& cell : cells)
    if (const auto& of = distances[scattered(cell)]; !of.empty())
      cell.deviation = model::quantile_of(of, eight_of_ten) / model::normal_p90;
  return cells;
}

std::string left_cells_csv(const std::vector<LeftCell>& cells) {
  std::string text = fmt::format("{}{}\n", file_head, fmt::join(cell_columns, ","));
  for (const LeftCell& cell : cells)
    text += fmt::format(
        "{},{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.5f}\n", to_string(cell.of), model::csv_field(cell.set),
        model::csv_field(cell.kind.stack), model::csv_field(cell.kind.precision), model::csv_field(cell.kind.model),
        model::csv_field(cell.hardware), cell.rows, cell.mean, cell.deviation, cell.drawn.mean, cell.drawn.variance);
  return text;
}

model::Result<std::vector<LeftCell>> load_left_cells(const std::string& path) {
  const auto table = TRY(CsvTable::read(path, {cell_columns.begin(), cell_columns.end()}));
  constexpr double any = -10;
  std::vector<LeftCell> cells;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto of = left_of_name(table.text(row, "of"));
    if (!of) return table.wrong(row, "of", "is none of " + fmt::format("{}", fmt::join(quantity_names, ", ")));
    cells.push_back({*of,
                     table.text(row, "set"),
                     {table.text(row, "stack"), table.text(row, "precision"), table.text(row, "model")},
                     table.text(row, "hardware"),
                     static_cast<std::size_t>(TRY(table.whole(row, "rows"))),
                     TRY(number(table, row, "mean", any)),
                     TRY(number(table, row, "deviation", 0)),
                     {TRY(number(table, row, "drawn_mean", any)), TRY(number(table, row, "drawn_variance", 0))}});
  }
  return cells;
}

std::set<std::string> sets_of_stack(const std::vector<LeftCell>& cells, const std::string& stack) {
  std::set<std::string> sets;
  for (const LeftCell& cell : cells)
    if (cell.kind.stack == stack) sets.insert(cell.set);
  return sets;
}

std::optional<sim::Left> left_of(const std::vector<LeftCell>& cells, const StepKind& kind,
                                 const std::set<std::string>& without_sets, LeftOf quantity) {
  const std::vector<LeftCell> used = cells_of(cells, without_sets, quantity);
  if (used.empty()) return std::nullopt;
  std::map<std::pair<std::string, std::string>, double> known;
  const auto scatter_of = [&](const StepKind& of) {
    const auto [found, fresh] = known.try_emplace({of.stack, of.model});
    if (fresh) found->second = within_sets(used, of);
    return found->second;
  };
  const double own = scatter_of(kind);
  std::vector<Observation> seen;
  for (const LeftCell& cell : used) {
    const double scatter = scatter_of(cell.kind);
    seen.push_back({cell.mean - cell.drawn.mean,
                    scatter * scatter / static_cast<double>(cell.rows),
                    {cell.kind.stack, cell.kind.precision, cell.kind.model, cell.set, std::to_string(seen.size())}});
  }
  const double unit = unit_of(used);
  Estimate common = average(seen, {kind.stack, kind.precision, kind.model, "", ""}, deviations_grid(unit),
                            unit * mu_deviation, unit * usual);
  const bool serves = quantity != LeftOf::time && quantity != LeftOf::memory;
  if (serves) common = {0, common.variance + common.mean * common.mean};
  const double total = common.variance + own * own;
  const double part = std::max(smallest_part, 1 - explained(used, kind.model) / total);
  return sim::Left{common.mean, std::sqrt(common.variance * part), own * std::sqrt(part),
                   basis(used, kind.stack, serves)};
}

}  // namespace plumbline::calibrate
