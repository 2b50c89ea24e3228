#include "calibrate/fit/detail/tables/low_latency_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/exchange_table.h"
#include "calibrate/fit/detail/tables/gemm_table.h"
#include "calibrate/fit/detail/tables/table_rows.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using model::LowLatencyConstants;
using model::LowLatencyWork;

double ranks_on_node(const LowLatencyWork& work) { return work.ranks / work.nodes; }

// The nodes between which copies travel by NIC; without NVLink every rank is one.
double network_groups(const LowLatencyWork& work, bool uses_nvlink) { return uses_nvlink ? work.nodes : work.ranks; }

template <class Number>
bool differ(const std::vector<LowLatencyRow>& rows, const Number& number) {
  return std::ranges::any_of(rows, [&](const LowLatencyRow& row) {
    return number(row.work) > 1 && number(row.work) != number(rows.front().work);
  });
}

// Returns the constants on which the rows depend.
std::vector<const LowLatencyNumber*> numbers_of(const std::vector<LowLatencyRow>& rows, bool uses_nvlink) {
  using Seen = LowLatencyNumber::Seen;
  const auto groups = [&](const LowLatencyWork& work) { return network_groups(work, uses_nvlink); };
  const auto leaves = [](const auto& of) { return [&of](const LowLatencyRow& row) { return of(row.work) > 1; }; };
  const bool network = std::ranges::any_of(rows, leaves(groups));
  const bool node = uses_nvlink && std::ranges::any_of(rows, leaves(ranks_on_node));
  const bool network_differs = differ(rows, groups), node_differs = differ(rows, ranks_on_node);
  const bool experts_differ = differ(rows, [](const LowLatencyWork& work) { return work.experts; });
  std::vector<const LowLatencyNumber*> found;
  for (const LowLatencyNumber& number : low_latency_numbers()) {
    const bool differs = number.seen == Seen::in_experts ? experts_differ
                         : number.network                ? network_differs
                                                         : node_differs;
    if ((number.network ? network : node) && (number.seen == Seen::always || differs)) found.push_back(&number);
  }
  return found;
}

class LowLatencyForm {
 public:
  LowLatencyForm(const std::vector<LowLatencyRow>& rows, const std::vector<const LowLatencyNumber*>& numbers,
                 const LowLatencyConstants& known)
      : rows_(rows), numbers_(numbers), known_(known) {}

  VectorXd operator()(const VectorXd& x) const {
    LowLatencyConstants constants = known_;
    for (std::size_t i = 0; i < numbers_.size(); ++i) constants.*numbers_[i]->value = x[static_cast<Index>(i)];
    return seconds(constants);
  }

  VectorXd seconds(const LowLatencyConstants& constants) const {
    return vector_of(rows_, [&](const auto& row) { return low_latency_seconds(constants, row.work).seconds(); });
  }

 private:
  const std::vector<LowLatencyRow>& rows_;
  const std::vector<const LowLatencyNumber*>& numbers_;
  LowLatencyConstants known_;
};

}  // namespace

const std::array<LowLatencyNumber, 7>& low_latency_numbers() {
  using C = LowLatencyConstants;
  using Seen = LowLatencyNumber::Seen;
  static constexpr std::array<LowLatencyNumber, 7> numbers = {
      {{"start", &C::start, "us", 20e-6, true, Seen::always},
       {"step", &C::step, "us", 2e-6, true, Seen::in_groups},
       {"nic_rate", &C::nic_rate, "GB/s", 45e9, true, Seen::always},
       {"node_start", &C::node_start, "us", 12e-6, false, Seen::always},
       {"node_step", &C::node_step, "us", 1e-6, false, Seen::in_groups},
       {"expert_time", &C::expert_time, "ns", 10e-9, false, Seen::in_experts},
       {"node_rate", &C::node_rate, "GB/s", 2e11, false, Seen::always}}};
  return numbers;
}

LowLatencyRow low_latency_row(const ExchangeRow& row) {
  constexpr double scaled_fp8 = 1 + 4.0 / 128, header = 16, bf16 = 2;
  const auto hidden = static_cast<double>(row.hidden);
  const double token = row.direction == "dispatch" ? hidden * scaled_fp8 + header : hidden * bf16;
  return {fmt::format("{}-{}-{}-{}-{}", row.nodes, row.tokens, row.hidden, row.top_k, row.experts),
          row.direction,
          {static_cast<double>(row.tokens * row.top_k) * token, static_cast<double>(row.gpus),
           static_cast<double>(row.nodes), static_cast<double>(row.experts)},
          row.seconds};
}

LowLatencyRow low_latency_row(const TrayExchangeRow& row) {
  constexpr double hidden = 7168, experts = 256, top_k = 8;  // the only model that was measured
  const auto ranks = static_cast<double>(row.expert_parallel);
  const double token = hidden * operand_bytes(row.direction == "combine" ? "bf16" : row.format);
  return {fmt::format("{}-{}", row.tokens, row.expert_parallel),
          row.direction,
          {static_cast<double>(row.tokens) * distinct_groups(ranks, experts, top_k) * token, ranks, 1, experts},
          row.seconds};
}

LowLatencyTableFit fit_low_latency_table(const std::vector<LowLatencyRow>& rows, const LowLatencyConstants& known,
                                         bool uses_nvlink, const FitMachine& machine) {
  constexpr std::size_t few_rows = 30;
  constexpr double known_within = 0.3, noise = 0.05, unknown_within = 20;
  const std::vector<bool> held =
      marked(rows, [&](const LowLatencyRow& row) { return rows.size() > few_rows && is_held_out(row.shape); });
  const auto training = selected(rows, held, false);
  const std::vector<const LowLatencyNumber*> numbers = numbers_of(training, uses_nvlink);
  VectorXd start(static_cast<Index>(numbers.size())), prior(start.size());
  for (Index i = 0; i < start.size(); ++i) {
    const LowLatencyNumber& number = *numbers[static_cast<std::size_t>(i)];
    const double value = known.*number.value;
    start[i] = value > 0 ? value : number.start;
    prior[i] = value > 0 ? known_within / noise : unknown_within;
  }
  LowLatencyConstants fixed = known;
  if (!uses_nvlink) fixed.node_rate = 0;
  const LogFit solution =
      log_fit(LowLatencyForm(training, numbers, fixed), seconds_of(training), start, {.prior = prior});
  LowLatencyTableFit fit;
  std::vector<Index> written;
  for (Index i = 0; i < start.size(); ++i) {
    fit.numbers.push_back({numbers[static_cast<std::size_t>(i)], solution.values[i], solution.uncertainty[i]});
    written.push_back(i);
  }
  fit.correlation = correlation_of(solution, written);
  fit.held_out.family = "low latency";
  const LowLatencyForm all(rows, numbers, fixed);
  LowLatencyConstants ideal;
  ideal.nic_rate = machine.nic_rate;
  ideal.node_rate = uses_nvlink ? machine.nvlink_rate : 0;
  add_errors(all(solution.values), all.seconds(ideal), seconds_of(rows), held, std::vector<bool>(rows.size(), false),
             fit.held_out);
  return fit;
}

}  // namespace plumbline::calibrate
