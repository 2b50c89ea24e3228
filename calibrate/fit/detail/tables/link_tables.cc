#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/fit/detail/tables/tables.h"

namespace plumbline::calibrate {
namespace {

using model::ExchangeConstants;
using model::ExchangeWork;

struct ExchangeBySms {
  ExchangeWork work;
  double sms = 0;
};

// The numbers of one node, then those of several.
const std::vector<FormNumber<ExchangeConstants>> exchange_numbers = {
    {"start", &ExchangeConstants::start, "us", 20e-6},
    {"rank_rate", &ExchangeConstants::rank_rate, "GB/s", 30e9},
    {"row_time", &ExchangeConstants::row_time, "ns", 50e-9},
    {"token_time", &ExchangeConstants::token_time, "ns", 400e-9},
    {"start_exponent", &ExchangeConstants::start_exponent, "1", 0.3},
    {"node_rate", &ExchangeConstants::node_rate, "GB/s", 8e9},
    {"forward_rate", &ExchangeConstants::forward_rate, "GB/s", 30e9},
    {"nic_rate", &ExchangeConstants::nic_rate, "GB/s", 45e9}};
constexpr std::ptrdiff_t numbers_of_a_node = 4;

FormRow<ExchangeBySms> exchange_row(const ExchangeRow& row) {
  constexpr double scaled_fp8 = 1 + 4.0 / 128, bf16 = 2;
  const auto experts = static_cast<double>(row.experts), top_k = static_cast<double>(row.top_k);
  const auto ranks = static_cast<double>(row.gpus), nodes = static_cast<double>(row.nodes);
  const ExchangeWork work{
      .tokens = static_cast<double>(row.tokens),
      .token_bytes = static_cast<double>(row.hidden) * (row.direction == "dispatch" ? scaled_fp8 : bf16),
      .ranks_per_token = distinct_groups(ranks, experts, top_k),
      .nodes_per_token = distinct_groups(nodes, experts, top_k),
      .ranks = ranks,
      .nodes = nodes};
  return {fmt::format("{}-{}-{}-{}-{}", row.nodes, row.tokens, row.hidden, row.top_k, row.experts),
          {work, static_cast<double>(row.sms)},
          row.seconds,
          row.tokens >= training_tokens};
}

// With twelve SMs between two nodes the shipped configuration of DeepEP is 1.7 times slower than with eight or sixteen,
// and on eight nodes times no longer depend on SMs: neither belongs to the GPU.
bool usable_exchange(const ExchangeRow& row) {
  constexpr std::int64_t slow_sms = 12, most_nodes = 4;
  return row.mode == "normal" && row.nodes <= most_nodes && !(row.nodes == 2 && row.sms == slow_sms);
}

// Dispatch carries the rows in their format, combine in BF16, except where it is called low precision.
FormRow<ExchangeWork> tray_row(const TrayExchangeRow& row) {
  constexpr double hidden = 7168, experts = 256, top_k = 8;  // the only model that was measured
  const auto ranks = static_cast<double>(row.expert_parallel);
  const std::string format = row.direction == "dispatch"  ? (row.format == "fp8" ? "fp8_block" : row.format)
                             : row.direction == "combine" ? "bf16"
                                                          : "nvfp4";
  return {fmt::format("{}-{}", row.tokens, row.expert_parallel),
          {.tokens = static_cast<double>(row.tokens),
           .token_bytes = hidden * operand_bytes(format),
           .ranks_per_token = distinct_groups(ranks, experts, top_k),
           .nodes_per_token = 1,
           .ranks = ranks,
           .nodes = 1},
          row.seconds,
          row.tokens >= training_tokens};
}

}  // namespace

double distinct_groups(double groups, double experts, double top_k) {
  const double others = experts - experts / groups;
  if (others < top_k) return groups;
  const auto choose = [top_k](double of) {
    return std::lgamma(of + 1) - std::lgamma(top_k + 1) - std::lgamma(of - top_k + 1);
  };
  return groups * (1 - std::exp(choose(others) - choose(experts)));
}

TableFit<ExchangeConstants> fit_exchange_table(const std::vector<ExchangeRow>& table, const std::string& direction,
                                               const FitMachine& machine, double nvlink_rate) {
  std::vector<FormRow<ExchangeBySms>> rows;
  bool several_nodes = false;
  for (const ExchangeRow& row : table) {
    if (row.direction != direction || !usable_exchange(row)) continue;
    rows.push_back(exchange_row(row));
    several_nodes = several_nodes || row.nodes > 1;
  }
  auto numbers = exchange_numbers;
  if (!several_nodes) numbers.erase(numbers.begin() + numbers_of_a_node, numbers.end());
  const ExchangeConstants ideal{.nvlink_rate = machine.nvlink_rate, .nic_rate = machine.nic_rate};
  const auto seconds = [](const ExchangeConstants& c, const ExchangeBySms& of) {
    return exchange_seconds(c, of.work, of.sms).seconds();
  };
  auto fit = fit_numbers(rows, held_rows(rows), FormNumbers<ExchangeConstants>(numbers, {.nvlink_rate = nvlink_rate}),
                         seconds, [&](const ExchangeBySms& of) { return seconds(ideal, of); });
  fit.held_out.family = "exchange";
  fit.held_out.table = "DeepEP " + direction;
  return fit;
}

TableFit<ExchangeConstants> fit_tray_table(const std::vector<TrayExchangeRow>& table, const std::string& kernel,
                                           const std::string& direction, const std::string& format,
                                           const FitMachine& machine) {
  constexpr std::int64_t gpus_of_tray = 4;
  std::vector<FormRow<ExchangeWork>> rows;
  for (const TrayExchangeRow& row : table)
    if (row.kernel == kernel && row.direction == direction && row.format == format && row.tokens > 1 &&
        row.expert_parallel > gpus_of_tray)
      rows.push_back(tray_row(row));
  constexpr double local_share = 0.15;
  const FormNumbers<ExchangeConstants> numbers(
      {{"start", &ExchangeConstants::start, "us", 10e-6},
       {"start_exponent", &ExchangeConstants::start_exponent, "1", 0.1},
       {"nvlink_rate", &ExchangeConstants::nvlink_rate, "GB/s", machine.nvlink_rate},
       {"local_rate", &ExchangeConstants::local_rate, "GB/s", local_share * machine.nvlink_rate}},
      {});
  const auto seconds = [](const ExchangeConstants& c, const ExchangeWork& work) {
    return exchange_seconds(c, work, 0).seconds();
  };
  auto fit = fit_numbers(rows, held_rows(rows), numbers, seconds,
                         [&](const ExchangeWork& work) { return seconds({.nvlink_rate = machine.nvlink_rate}, work); });
  fit.held_out.family = "exchange";
  fit.held_out.table = fmt::format("{} {} {}", kernel, direction, format);
  return fit;
}

}  // namespace plumbline::calibrate
