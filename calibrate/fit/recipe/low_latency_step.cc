// The step of a recipe that fits low-latency dispatch and combine to the form of model/cost/forms/transfer_forms.h.
// Copies are assumed to go to all ranks alike.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/held_out.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "model/cost/forms/transfer_forms.h"

namespace plumbline::calibrate {
namespace {

struct LowLatencyRow {
  std::string shape;  // decides whether the row is left out of the fit
  std::string direction;
  model::LowLatencyWork work;
  double seconds = 0;
};

struct LowLatencyNumber {
  const char* name;  // "start", as in exchange.low_latency.<version>.<direction>.start
  double model::LowLatencyConstants::*value;
  const char* unit;
  double start;                                                           // of a fit without anything known, in SI
  bool network = false;                                                   // of the leg between nodes
  enum class Seen { always, in_groups, in_experts } seen = Seen::always;  // where rows differ in these
};

using model::LowLatencyConstants;
using Seen = LowLatencyNumber::Seen;
constexpr std::array<LowLatencyNumber, 7> low_latency_numbers = {
    {{"start", &LowLatencyConstants::start, "us", 20e-6, true, Seen::always},
     {"step", &LowLatencyConstants::step, "us", 2e-6, true, Seen::in_groups},
     {"nic_rate", &LowLatencyConstants::nic_rate, "GB/s", 45e9, true, Seen::always},
     {"node_start", &LowLatencyConstants::node_start, "us", 12e-6, false, Seen::always},
     {"node_step", &LowLatencyConstants::node_step, "us", 1e-6, false, Seen::in_groups},
     {"expert_time", &LowLatencyConstants::expert_time, "ns", 10e-9, false, Seen::in_experts},
     {"node_rate", &LowLatencyConstants::node_rate, "GB/s", 2e11, false, Seen::always}}};

struct LowLatencyTableFit {
  std::vector<Draft::Fitted> constants;  // those on which rows depend
  std::vector<std::vector<double>> correlation;
  HeldOut held_out;
};

using Eigen::Index;
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
  const auto groups = [&](const LowLatencyWork& work) { return network_groups(work, uses_nvlink); };
  const auto leaves = [](const auto& of) { return [&of](const LowLatencyRow& row) { return of(row.work) > 1; }; };
  const bool network = std::ranges::any_of(rows, leaves(groups));
  const bool node = uses_nvlink && std::ranges::any_of(rows, leaves(ranks_on_node));
  const bool network_differs = differ(rows, groups), node_differs = differ(rows, ranks_on_node);
  const bool experts_differ = differ(rows, [](const LowLatencyWork& work) { return work.experts; });
  std::vector<const LowLatencyNumber*> found;
  for (const LowLatencyNumber& number : low_latency_numbers) {
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

  Eigen::VectorXd operator()(const Eigen::VectorXd& x) const {
    LowLatencyConstants constants = known_;
    for (std::size_t i = 0; i < numbers_.size(); ++i) constants.*numbers_[i]->value = x[static_cast<Index>(i)];
    return seconds(constants);
  }

  Eigen::VectorXd seconds(const LowLatencyConstants& constants) const {
    return vector_of(rows_, [&](const auto& row) { return low_latency_seconds(constants, row.work).seconds(); });
  }

 private:
  const std::vector<LowLatencyRow>& rows_;
  const std::vector<const LowLatencyNumber*>& numbers_;
  LowLatencyConstants known_;
};

// DeepEP sends a copy of a token to each of its experts, with scales and a header of 16 bytes.
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

// TensorRT-LLM's one-sided kernels send it once to each rank, and the sum of its experts' results once back, in BF16.
LowLatencyRow low_latency_row(const TrayExchangeRow& row) {
  constexpr double hidden = 7168, experts = 256, top_k = 8;  // the only model that was measured
  const auto ranks = static_cast<double>(row.expert_parallel);
  const double token = hidden * operand_bytes(row.direction == "combine" ? "bf16" : row.format);
  return {fmt::format("{}-{}", row.tokens, row.expert_parallel),
          row.direction,
          {static_cast<double>(row.tokens) * distinct_groups(ranks, experts, top_k) * token, ranks, 1, experts},
          row.seconds};
}

// Fits the rows of one direction. `known` has 0 for a constant without a value; a value that is known is the center of
// a prior of 30 %. `uses_nvlink`: ranks of a node reach each other over NVLink, else through their NICs. Tables of few
// rows are fitted whole. Requires rows.
LowLatencyTableFit fit_low_latency_table(const std::vector<LowLatencyRow>& rows, const LowLatencyConstants& known,
                                         bool uses_nvlink, const FitMachine& machine) {
  constexpr std::size_t few_rows = 30;
  constexpr double known_within = 0.3, noise = 0.05, unknown_within = 20;
  const std::vector<bool> held =
      marked(rows, [&](const LowLatencyRow& row) { return rows.size() > few_rows && is_held_out(row.shape); });
  const auto training = selected(rows, held, false);
  const std::vector<const LowLatencyNumber*> numbers = numbers_of(training, uses_nvlink);
  Eigen::VectorXd start(static_cast<Index>(numbers.size())), prior(start.size());
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
    const LowLatencyNumber& number = *numbers[static_cast<std::size_t>(i)];
    fit.constants.push_back({number.name, solution.values[i], number.unit, solution.uncertainty[i]});
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

// Returns the rows that a low-latency step names, of the component tables and of what DeepEP printed.
model::Result<std::vector<LowLatencyRow>> low_latency_rows(const Draft& draft) {
  const RecipeStep& step = draft.step();
  std::vector<LowLatencyRow> found;
  if (!step.kernel.empty()) {
    for (const TrayExchangeRow& row : TRY(load_tray_exchange_rows(draft.table("nvl72"))))
      if (row.kernel == step.kernel && row.format == step.format && row.tokens > 1 && row.tokens <= training_tokens)
        found.push_back(low_latency_row(row));
    return found;
  }
  const auto printed = std::filesystem::path(draft.inputs().components).parent_path() / "deepep.csv";
  auto rows = TRY(load_printed_exchange_rows(printed.string()));
  if (const std::string file = draft.table("exchange"); std::filesystem::exists(file)) {  // not every GPU has one
    const auto table = TRY(load_exchange_rows(file));
    rows.insert(rows.end(), table.begin(), table.end());
  }
  for (const ExchangeRow& row : rows)
    if (row.mode == "low_latency" && step.names(row.software)) found.push_back(low_latency_row(row));
  return found;
}

}  // namespace

model::Result<void> fit_low_latency_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto all = TRY(low_latency_rows(draft));
  const std::string kernels = step.kernel.empty() ? fmt::format("{}", fmt::join(step.software, ", ")) : step.kernel;
  for (const std::string direction : {"dispatch", "combine"}) {
    std::vector<LowLatencyRow> rows;
    std::ranges::copy_if(all, std::back_inserter(rows),
                         [&](const LowLatencyRow& row) { return row.direction == direction; });
    if (rows.empty()) return draft.wrong("step.software", "no low-latency row of " + kernels);
    const std::string prefix = fmt::format("exchange.low_latency.{}.{}.", step.kind, direction);
    model::LowLatencyConstants known;
    for (const LowLatencyNumber& number : low_latency_numbers)
      known.*number.value = draft.si(prefix + number.name).value_or(0);
    LowLatencyTableFit fit = fit_low_latency_table(rows, known, step.uses_nvlink, draft.machine());
    fit.held_out.table = fmt::format("{} {}", step.kind, direction);
    draft.held_out.push_back(fit.held_out);
    const std::string how =
        fmt::format("fitted to {} of {} rows of {}, {}", fit.held_out.fitted_rows, rows.size(), kernels, direction);
    for (Draft::Fitted& constant : fit.constants) constant.name = prefix + constant.name;
    draft.set(fit.constants, how);
    draft.correlate(fit.constants, fit.correlation);
  }
  if (!step.kernel.empty())
    draft.set(fmt::format("exchange.low_latency.{}.once_per_rank", step.kind), 1, "1", std::nullopt,
              model::Evidence::published,
              "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.cu");
  return {};
}

}  // namespace plumbline::calibrate
