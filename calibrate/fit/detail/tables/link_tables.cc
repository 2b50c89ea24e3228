#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "model/base/statistics.h"

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

using Eigen::Index;
using Eigen::VectorXd;

constexpr Index line_count = 3, line_numbers = 3;          // of each: base latency, time per step, rate
constexpr Index ring_at = 0, copy_at = 9, direct_at = 10;  // in the fitted numbers
constexpr Index switch_base = 19, switch_rate = 20;
constexpr Index simple_line = 2;

struct CollectiveCase {
  double ranks, bytes, passes, bus;
  bool exchanges, reduces;
};

CollectiveCase collective_case(const CollectiveRow& row) {
  const auto ranks = static_cast<double>(row.gpus);
  const bool reduces = row.op == "all_reduce";
  return {ranks,
          static_cast<double>(row.bytes),
          reduces ? 2.0 : 1.0,
          (reduces ? 2 : 1) * (ranks - 1) / ranks,
          row.op == "all_to_all",
          reduces};
}

class CollectiveLines {
 public:
  CollectiveLines(const std::vector<CollectiveRow>& rows, bool switch_sums) : switch_sums_(switch_sums) {
    for (const CollectiveRow& row : rows) cases_.push_back(collective_case(row));
  }

  Index parameters() const { return switch_sums_ ? switch_rate + 1 : switch_base; }

  VectorXd start(double link, double latency) const {
    constexpr double us = 1e-6;
    const double switch_share = link < 500e9 ? 0.57 : 0.49;
    VectorXd x(switch_rate + 1);
    x << 5 * us * latency, 0.8 * us, 0.25 * link,  // ring, LL
        10 * us, 1.2 * us, 0.4 * link * latency,   // LL128
        20 * us * latency, 2 * us, 0.8 * link,     // Simple
        2.5 * link,                                // copies
        7 * us * latency, 0.2 * us, 0.05 * link,   // direct
        12 * us, 0.1 * us, 0.4 * link * latency,   //
        18 * us * latency, us, 0.75 * link,        //
        50 * us * latency, switch_share * link;
    return x.head(parameters());
  }

  // Returns the seconds on line `line` of the ring or the direct line_count.
  static double on_line(const VectorXd& x, const CollectiveCase& c, Index line) {
    const Index at = (c.exchanges ? direct_at : ring_at) + line_numbers * line;
    const double own_piece = line == simple_line ? c.bytes / (c.ranks * x[copy_at]) : 0;
    return x[at] + c.passes * (c.ranks - 1) * x[at + 1] + c.bytes * c.bus / x[at + 2] + own_piece;
  }

  // Returns the fastest line, 3 for sums in the switch, and its seconds.
  std::pair<Index, double> fastest(const VectorXd& x, const CollectiveCase& c) const {
    std::pair<Index, double> best{0, on_line(x, c, 0)};
    for (Index line = 1; line < line_count; ++line)
      if (const double seconds = on_line(x, c, line); seconds < best.second) best = {line, seconds};
    if (switch_sums_ && c.reduces && c.ranks > 2)
      if (const double seconds = x[switch_base] + 8.0 / 9 * (1 + 1 / c.ranks) * c.bytes / x[switch_rate];
          seconds < best.second)
        best = {line_count, seconds};
    return best;
  }

  VectorXd operator()(const VectorXd& x) const {
    return vector_of(cases_, [&](const CollectiveCase& c) { return fastest(x, c).second; });
  }

  // Returns whether any row is fastest on the line.
  bool uses(const VectorXd& x, bool direct, Index line) const {
    return std::ranges::any_of(
        cases_, [&](const CollectiveCase& c) { return c.exchanges == direct && fastest(x, c).first == line; });
  }

  VectorXd roofline(double link) const {
    return vector_of(cases_, [&](const CollectiveCase& c) { return c.bytes * c.bus / link; });
  }

 private:
  std::vector<CollectiveCase> cases_;
  bool switch_sums_;
};

// Returns the rows without those that a shared node disturbed: slower than twice the bytes, or far above both
// neighbors.
std::vector<CollectiveRow> undisturbed(const std::vector<CollectiveRow>& rows) {
  constexpr double above_twice = 1.15, above_neighbors = 1.35;
  std::map<std::tuple<std::string, std::int64_t, std::string>, std::vector<CollectiveRow>> series;
  for (const CollectiveRow& row : rows) series[{row.software, row.gpus, row.op}].push_back(row);
  std::vector<CollectiveRow> kept;
  for (auto& [key, of] : series) {
    std::ranges::sort(of, {}, &CollectiveRow::bytes);
    for (std::size_t i = 0; i < of.size(); ++i) {
      const bool before = i > 0, after = i + 1 < of.size();
      const bool falls = after && of[i].seconds > above_twice * of[i + 1].seconds;
      const bool peaks =
          before && after && of[i].seconds > above_neighbors * std::sqrt(of[i - 1].seconds * of[i + 1].seconds);
      if (!falls && !peaks) kept.push_back(of[i]);
    }
  }
  return kept;
}

// Returns one row for each size, with the median of its versions.
std::vector<CollectiveRow> medians(const std::vector<CollectiveRow>& rows) {
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::vector<double>> times;
  for (const CollectiveRow& row : rows) times[{row.op, row.gpus, row.bytes}].push_back(row.seconds);
  std::vector<CollectiveRow> result;
  for (auto& [key, of] : times) {
    const auto& [op, gpus, bytes] = key;
    CollectiveRow row;
    row.op = op;
    row.gpus = gpus;
    row.bytes = bytes;
    row.seconds = model::quantile(of, 0.5);
    result.push_back(std::move(row));
  }
  return result;
}

Fitted number_of(const LogFit& fit, Index at, const char* name, const char* unit) {
  return {name, fit.values[at], unit, fit.uncertainty[at]};
}

std::array<std::optional<CollectiveLine>, 3> lines_of(const CollectiveLines& form, const LogFit& fit, bool direct) {
  std::array<std::optional<CollectiveLine>, 3> found;
  for (Index line = 0; line < line_count; ++line)
    if (form.uses(fit.values, direct, line))
      found[static_cast<std::size_t>(line)] =
          line_of(fit, (direct ? direct_at : ring_at) + line_numbers * line, "nvlink_hop");
  if (found[0] && found[1] && found[0]->numbers[0].value > found[1]->numbers[0].value) std::swap(found[0], found[1]);
  return found;
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

CollectiveLine line_of(const LogFit& fit, Index at, const char* second) {
  return {
      {number_of(fit, at, "base", "us"), number_of(fit, at + 1, second, "us"), number_of(fit, at + 2, "rate", "GB/s")},
      correlation_of(fit, {at, at + 1, at + 2})};
}

CollectiveTableFit fit_collective_table(const std::vector<CollectiveRow>& rows, const FitMachine& machine,
                                        bool switch_sums) {
  const auto marks = [](const std::vector<CollectiveRow>& of) {
    std::vector<bool> held;
    for (const CollectiveRow& row : of)
      held.push_back(
          is_held_out(fmt::format("{}-{}-{}", row.gpus, row.op == "all_to_all" ? "alltoall" : row.op, row.bytes)));
    return held;
  };
  const auto clean = undisturbed(rows);
  const auto training = medians(selected(clean, marks(clean), false));
  const CollectiveLines form(training, switch_sums);
  const VectorXd seconds = seconds_of(training);
  LogFit best;
  best.loss = std::numeric_limits<double>::infinity();
  for (const double latency : {1.0, 0.6, 1.6}) {
    LogFit fit = log_fit(form, seconds, form.start(machine.nvlink_rate, latency), {});
    if (fit.loss < best.loss) best = std::move(fit);
  }
  CollectiveTableFit result;
  result.ring = lines_of(form, best, false);
  result.direct = lines_of(form, best, true);
  result.copy_bandwidth = number_of(best, copy_at, "copy_bandwidth", "GB/s");
  const auto reduces = [&](const CollectiveCase& c) { return form.fastest(best.values, c).first == line_count; };
  if (switch_sums &&
      std::ranges::any_of(training, [&](const CollectiveRow& row) { return reduces(collective_case(row)); }))
    result.in_switch = {{number_of(best, switch_base, "base", "us"), number_of(best, switch_rate, "rate", "GB/s")}, {}};
  result.held_out.family = "collectives";
  result.held_out.table = "NCCL";
  const CollectiveLines all(rows, switch_sums);
  add_errors(all(best.values), all.roofline(machine.nvlink_rate), seconds_of(rows), marks(rows),
             marked(rows, [](const CollectiveRow& row) { return row.bytes >= training_bytes; }), result.held_out);
  return result;
}

}  // namespace plumbline::calibrate
