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

using model::LowLatencyConstants;
using model::LowLatencyWork;

// A row of one direction.
struct LowLatencyRow : FormRow<LowLatencyWork> {
  std::string direction;
};

struct LowLatencyNumber
    : FormNumber<LowLatencyConstants> {  // "start", as in exchange.low_latency.<version>.<direction>
  bool network = false;                  // of the leg between nodes
  enum class Seen { always, in_groups, in_experts } seen = Seen::always;  // where rows differ in these
};

using Seen = LowLatencyNumber::Seen;
constexpr std::array<LowLatencyNumber, 7> low_latency_numbers = {
    {{{"start", &LowLatencyConstants::start, "us", 20e-6}, true, Seen::always},
     {{"step", &LowLatencyConstants::step, "us", 2e-6}, true, Seen::in_groups},
     {{"nic_rate", &LowLatencyConstants::nic_rate, "GB/s", 45e9}, true, Seen::always},
     {{"node_start", &LowLatencyConstants::node_start, "us", 12e-6}, false, Seen::always},
     {{"node_step", &LowLatencyConstants::node_step, "us", 1e-6}, false, Seen::in_groups},
     {{"expert_time", &LowLatencyConstants::expert_time, "ns", 10e-9}, false, Seen::in_experts},
     {{"node_rate", &LowLatencyConstants::node_rate, "GB/s", 2e11}, false, Seen::always}}};

using LowLatencyRows = std::vector<FormRow<LowLatencyWork>>;

double ranks_on_node(const LowLatencyWork& work) { return work.ranks / work.nodes; }

// The nodes between which copies travel by NIC; without NVLink every rank is one.
double network_groups(const LowLatencyWork& work, bool uses_nvlink) { return uses_nvlink ? work.nodes : work.ranks; }

template <class Number>
bool differ(const LowLatencyRows& rows, const Number& number) {
  return std::ranges::any_of(rows, [&](const FormRow<LowLatencyWork>& row) {
    return number(row.work) > 1 && number(row.work) != number(rows.front().work);
  });
}

// Returns the constants on which the rows depend. A value that is known is the center of a prior of 30 %.
std::vector<FormNumber<LowLatencyConstants>> numbers_of(const LowLatencyRows& rows, const LowLatencyConstants& known,
                                                        bool uses_nvlink) {
  constexpr double known_within = 0.3, noise = 0.05;
  const auto groups = [&](const LowLatencyWork& work) { return network_groups(work, uses_nvlink); };
  const auto leaves = [](const auto& of) {
    return [&of](const FormRow<LowLatencyWork>& row) { return of(row.work) > 1; };
  };
  const bool network = std::ranges::any_of(rows, leaves(groups));
  const bool node = uses_nvlink && std::ranges::any_of(rows, leaves(ranks_on_node));
  const bool network_differs = differ(rows, groups), node_differs = differ(rows, ranks_on_node);
  const bool experts_differ = differ(rows, [](const LowLatencyWork& work) { return work.experts; });
  std::vector<FormNumber<LowLatencyConstants>> found;
  for (const LowLatencyNumber& number : low_latency_numbers) {
    const bool differs = number.seen == Seen::in_experts ? experts_differ
                         : number.network                ? network_differs
                                                         : node_differs;
    if (!(number.network ? network : node) || !(number.seen == Seen::always || differs)) continue;
    found.push_back(number);
    if (const double value = known.*number.constant; value > 0) {
      found.back().start = value;
      found.back().prior = known_within / noise;
    }
  }
  return found;
}

// DeepEP sends a copy of a token to each of its experts, with scales and a header of 16 bytes.
LowLatencyRow low_latency_row(const ExchangeRow& row) {
  constexpr double scaled_fp8 = 1 + 4.0 / 128, header = 16, bf16 = 2;
  const auto hidden = static_cast<double>(row.hidden);
  const double token = row.direction == "dispatch" ? hidden * scaled_fp8 + header : hidden * bf16;
  return {{fmt::format("{}-{}-{}-{}-{}", row.nodes, row.tokens, row.hidden, row.top_k, row.experts),
           {static_cast<double>(row.tokens * row.top_k) * token, static_cast<double>(row.gpus),
            static_cast<double>(row.nodes), static_cast<double>(row.experts)},
           row.seconds},
          row.direction};
}

// TensorRT-LLM's one-sided kernels send it once to each rank, and the sum of its experts' results once back, in BF16.
LowLatencyRow low_latency_row(const TrayExchangeRow& row) {
  constexpr double hidden = 7168, experts = 256, top_k = 8;  // the only model that was measured
  const auto ranks = static_cast<double>(row.expert_parallel);
  const double token = hidden * operand_bytes(row.direction == "combine" ? "bf16" : row.format);
  return {{fmt::format("{}-{}", row.tokens, row.expert_parallel),
           {static_cast<double>(row.tokens) * distinct_groups(ranks, experts, top_k) * token, ranks, 1, experts},
           row.seconds},
          row.direction};
}

// Fits the rows of one direction. `known` has 0 for a constant without a value. `uses_nvlink`: ranks of a node reach
// each other over NVLink, else through their NICs. Tables of few rows are fitted whole. Requires rows.
TableFit<LowLatencyConstants> fit_low_latency_table(const LowLatencyRows& rows, LowLatencyConstants known,
                                                    bool uses_nvlink, const FitMachine& machine) {
  constexpr std::size_t few_rows = 30;
  const std::vector<bool> held = marked(
      rows, [&](const FormRow<LowLatencyWork>& row) { return rows.size() > few_rows && is_held_out(row.shape); });
  const auto numbers = numbers_of(selected(rows, held, false), known, uses_nvlink);
  if (!uses_nvlink) known.node_rate = 0;
  const auto seconds = [](const LowLatencyConstants& c, const LowLatencyWork& work) {
    return low_latency_seconds(c, work).seconds();
  };
  auto fit = fit_numbers(
      rows, held, FormNumbers<LowLatencyConstants>(numbers, known), seconds, [&](const LowLatencyWork& work) {
        return seconds({.nic_rate = machine.nic_rate, .node_rate = uses_nvlink ? machine.nvlink_rate : 0}, work);
      });
  fit.held_out.family = "low latency";
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
    LowLatencyRows rows;
    std::ranges::copy_if(all, std::back_inserter(rows),
                         [&](const LowLatencyRow& row) { return row.direction == direction; });
    if (rows.empty()) return draft.wrong("step.software", "no low-latency row of " + kernels);
    const std::string prefix = fmt::format("exchange.low_latency.{}.{}.", step.kind, direction);
    model::LowLatencyConstants known;
    for (const LowLatencyNumber& number : low_latency_numbers)
      known.*number.constant = draft.si(prefix + number.name).value_or(0);
    auto fit = fit_low_latency_table(rows, known, step.uses_nvlink, draft.machine());
    fit.held_out.table = fmt::format("{} {}", step.kind, direction);
    draft.held_out.push_back(fit.held_out);
    const std::string how =
        fmt::format("fitted to {} of {} rows of {}, {}", fit.held_out.fitted_rows, rows.size(), kernels, direction);
    for (Fitted& constant : fit.fitted) constant.name = prefix + constant.name;
    draft.set(fit.fitted, how);
    draft.correlate(fit.fitted, fit.correlation);
  }
  if (!step.kernel.empty())
    draft.set(fmt::format("exchange.low_latency.{}.once_per_rank", step.kind), 1, "1", std::nullopt,
              model::Evidence::published,
              "NVIDIA/TensorRT-LLM cpp/tensorrt_llm/kernels/communicationKernels/moeAlltoAllKernels.cu");
  return {};
}

}  // namespace plumbline::calibrate
