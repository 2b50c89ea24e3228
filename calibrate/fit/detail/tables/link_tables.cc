#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

enum ExchangeNumber : Index { start_at, rank_at, row_time_at, token_at, exponent_at, node_at, forward_at, nic_at };

model::ExchangeWork exchange_work(const ExchangeRow& row) {
  constexpr double scaled_fp8 = 1 + 4.0 / 128, bf16 = 2;
  const auto experts = static_cast<double>(row.experts), top_k = static_cast<double>(row.top_k);
  const auto ranks = static_cast<double>(row.gpus), nodes = static_cast<double>(row.nodes);
  return {.tokens = static_cast<double>(row.tokens),
          .token_bytes = static_cast<double>(row.hidden) * (row.direction == "dispatch" ? scaled_fp8 : bf16),
          .ranks_per_token = distinct_groups(ranks, experts, top_k),
          .nodes_per_token = distinct_groups(nodes, experts, top_k),
          .ranks = ranks,
          .nodes = nodes};
}

class ExchangeForm {
 public:
  ExchangeForm(const std::vector<ExchangeRow>& rows, double nvlink_rate, bool several_nodes)
      : nvlink_rate_(nvlink_rate), several_nodes_(several_nodes) {
    for (const ExchangeRow& row : rows) works_.emplace_back(exchange_work(row), static_cast<double>(row.sms));
  }

  model::ExchangeConstants constants(const VectorXd& x) const {
    model::ExchangeConstants c;
    c.start = x[start_at];
    c.rank_rate = x[rank_at];
    c.row_time = x[row_time_at];
    c.token_time = x[token_at];
    c.nvlink_rate = nvlink_rate_;
    if (!several_nodes_) return c;
    c.start_exponent = x[exponent_at];
    c.node_rate = x[node_at];
    c.forward_rate = x[forward_at];
    c.nic_rate = x[nic_at];
    return c;
  }

  VectorXd operator()(const VectorXd& x) const {
    const model::ExchangeConstants c = constants(x);
    return vector_of(works_, [&](const auto& of) { return exchange_seconds(c, of.first, of.second).seconds(); });
  }

  VectorXd start() const {
    constexpr double launch = 20e-6, rank = 30e9, row = 50e-9, token = 400e-9, exponent = 0.3, node = 8e9, nic = 45e9;
    VectorXd x(several_nodes_ ? nic_at + 1 : token_at + 1);
    x[start_at] = launch;
    x[rank_at] = rank;
    x[row_time_at] = row;
    x[token_at] = token;
    if (several_nodes_) x.tail(4) << exponent, node, rank, nic;
    return x;
  }

  VectorXd roofline(const FitMachine& machine) const {
    return vector_of(works_, [&](const auto& of) {
      return std::max(of.first.network_bytes() / machine.nic_rate, of.first.node_bytes() / machine.nvlink_rate);
    });
  }

 private:
  std::vector<std::pair<model::ExchangeWork, double>> works_;  // and SMs
  double nvlink_rate_;
  bool several_nodes_;
};

// With twelve SMs between two nodes the shipped configuration of DeepEP is 1.7 times slower than with eight or sixteen,
// and on eight nodes times no longer depend on SMs: neither belongs to the GPU.
bool usable_exchange(const ExchangeRow& row) {
  constexpr std::int64_t slow_sms = 12, most_nodes = 4;
  return row.mode == "normal" && row.nodes <= most_nodes && !(row.nodes == 2 && row.sms == slow_sms);
}

constexpr double tray_hidden = 7168, tray_experts = 256, tray_top_k = 8;  // the only model that was measured
constexpr std::int64_t gpus_of_tray = 4;

enum TrayNumber : Index { tray_start_at, tray_exponent_at, tray_link_at, tray_local_at };

// Dispatch carries the rows in their format, combine in BF16, except where it is called low precision.
model::ExchangeWork tray_work(const TrayExchangeRow& row) {
  const auto ranks = static_cast<double>(row.expert_parallel);
  const std::string format = row.direction == "dispatch"  ? (row.format == "fp8" ? "fp8_block" : row.format)
                             : row.direction == "combine" ? "bf16"
                                                          : "nvfp4";
  return {.tokens = static_cast<double>(row.tokens),
          .token_bytes = tray_hidden * operand_bytes(format),
          .ranks_per_token = distinct_groups(ranks, tray_experts, tray_top_k),
          .nodes_per_token = 1,
          .ranks = ranks,
          .nodes = 1};
}

class TrayForm {
 public:
  explicit TrayForm(const std::vector<TrayExchangeRow>& rows) {
    for (const TrayExchangeRow& row : rows) works_.push_back(tray_work(row));
  }

  static model::ExchangeConstants constants(const VectorXd& x) {
    model::ExchangeConstants c;
    c.start = x[tray_start_at];
    c.start_exponent = x[tray_exponent_at];
    c.nvlink_rate = x[tray_link_at];
    c.local_rate = x[tray_local_at];
    return c;
  }

  VectorXd operator()(const VectorXd& x) const { return seconds(constants(x)); }

  VectorXd seconds(const model::ExchangeConstants& c) const {
    return vector_of(works_, [&](const auto& work) { return exchange_seconds(c, work, 0).seconds(); });
  }

 private:
  std::vector<model::ExchangeWork> works_;
};

}  // namespace

double distinct_groups(double groups, double experts, double top_k) {
  const double others = experts - experts / groups;
  if (others < top_k) return groups;
  const auto choose = [top_k](double of) {
    return std::lgamma(of + 1) - std::lgamma(top_k + 1) - std::lgamma(of - top_k + 1);
  };
  return groups * (1 - std::exp(choose(others) - choose(experts)));
}

ExchangeTableFit fit_exchange_table(const std::vector<ExchangeRow>& table, const std::string& direction,
                                    const FitMachine& machine, double nvlink_rate) {
  std::vector<ExchangeRow> rows;
  std::ranges::copy_if(table, std::back_inserter(rows),
                       [&](const ExchangeRow& row) { return row.direction == direction && usable_exchange(row); });
  const std::vector<bool> held = marked(rows, [](const ExchangeRow& row) {
    return is_held_out(fmt::format("{}-{}-{}-{}-{}", row.nodes, row.tokens, row.hidden, row.top_k, row.experts));
  });
  ExchangeTableFit fit;
  fit.several_nodes = std::ranges::any_of(rows, [](const ExchangeRow& row) { return row.nodes > 1; });
  const auto training = selected(rows, held, false);
  const ExchangeForm form(training, nvlink_rate, fit.several_nodes);
  const LogFit solution = log_fit(form, seconds_of(training), form.start(), {});
  fit.constants = form.constants(solution.values);
  const VectorXd& sd = solution.uncertainty;
  fit.start = sd[start_at];
  fit.rank_rate = sd[rank_at];
  fit.row_time = sd[row_time_at];
  fit.token_time = sd[token_at];
  if (fit.several_nodes) {
    fit.start_exponent = sd[exponent_at];
    fit.node_rate = sd[node_at];
    fit.forward_rate = sd[forward_at];
    fit.nic_rate = sd[nic_at];
  }
  std::vector<Index> written = {start_at, rank_at, row_time_at, token_at};
  if (fit.several_nodes) written.insert(written.end(), {exponent_at, node_at, forward_at, nic_at});
  fit.correlation = correlation_of(solution, written);
  fit.held_out.family = "exchange";
  fit.held_out.table = "DeepEP " + direction;
  const ExchangeForm all(rows, nvlink_rate, fit.several_nodes);
  add_errors(all(solution.values), all.roofline(machine), seconds_of(rows), held,
             marked(rows, [](const ExchangeRow& row) { return row.tokens >= training_tokens; }), fit.held_out);
  return fit;
}

TrayTableFit fit_tray_table(const std::vector<TrayExchangeRow>& table, const std::string& kernel,
                            const std::string& direction, const std::string& format, const FitMachine& machine) {
  std::vector<TrayExchangeRow> rows;
  std::ranges::copy_if(table, std::back_inserter(rows), [&](const TrayExchangeRow& row) {
    return row.kernel == kernel && row.direction == direction && row.format == format && row.tokens > 1 &&
           row.expert_parallel > gpus_of_tray;
  });
  const std::vector<bool> held = marked(rows, [](const TrayExchangeRow& row) {
    return is_held_out(fmt::format("{}-{}", row.tokens, row.expert_parallel));
  });
  const auto training = selected(rows, held, false);
  constexpr double start_time = 10e-6, exponent = 0.1, local_share = 0.15;
  VectorXd start(tray_local_at + 1);
  start << start_time, exponent, machine.nvlink_rate, local_share * machine.nvlink_rate;
  const LogFit solution = log_fit(TrayForm(training), seconds_of(training), start, {});
  TrayTableFit fit;
  fit.constants = TrayForm::constants(solution.values);
  fit.start = solution.uncertainty[tray_start_at];
  fit.start_exponent = solution.uncertainty[tray_exponent_at];
  fit.nvlink_rate = solution.uncertainty[tray_link_at];
  fit.local_rate = solution.uncertainty[tray_local_at];
  fit.held_out.family = "exchange";
  fit.held_out.table = fmt::format("{} {} {}", kernel, direction, format);
  model::ExchangeConstants ideal;
  ideal.nvlink_rate = machine.nvlink_rate;
  const TrayForm all(rows);
  add_errors(all(solution.values), all.seconds(ideal), seconds_of(rows), held,
             marked(rows, [](const TrayExchangeRow& row) { return row.tokens >= training_tokens; }), fit.held_out);
  return fit;
}

}  // namespace plumbline::calibrate
