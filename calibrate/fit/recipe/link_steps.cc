#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/log_fit.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/held_out.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "model/cost/collective_cost.h"

namespace plumbline::calibrate {

// Steps of a recipe that fit transfers to component tables.

namespace {

using model::Evidence;

constexpr std::array<const char*, 3> protocol_names = {"ll", "ll128", "simple"};

// Writes three lines. One that is fastest nowhere takes the numbers of the first that was identified, so that it never
// wins.
void set_lines(Draft& draft, const std::string& algorithm, const std::array<std::optional<CollectiveLine>, 3>& lines,
               double link_rate, const std::string& how) {
  const auto known = std::ranges::find_if(lines, [](const auto& line) { return line.has_value(); });
  if (known == lines.end()) return;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool own = lines[i].has_value();
    const CollectiveLine& line = own ? *lines[i] : **known;
    const std::string name = fmt::format("collective.{}.{}.", algorithm, protocol_names[i]);
    const std::string source = own ? how : how + "; fastest at no size, so written as another line";
    std::vector<Fitted> constants = line.numbers;
    constants.back() = {"efficiency", line.rate().value / link_rate, "1", line.rate().deviation};
    for (Fitted& constant : constants) constant.name = name + constant.name;
    draft.set(constants, source, own ? Evidence::fitted : Evidence::assumed);
    if (own) draft.correlate(constants, line.correlation);
  }
}

// A tree has no advantage on one node: it starts no earlier than a ring.
void set_trees(Draft& draft) {
  for (const char* protocol : protocol_names)
    for (const char* part : {"base", "nvlink_hop"}) {
      const std::string ring = fmt::format("collective.ring.{}.{}", protocol, part);
      const model::Parameter* parameter = draft.find(ring);
      if (parameter == nullptr) continue;
      draft.set(fmt::format("collective.tree.{}.{}", protocol, part), si_value(*parameter), "us",
                parameter->relative_uncertainty, Evidence::assumed,
                "as " + ring + ": no table shows a tree on one node");
      draft.share(fmt::format("collective.tree.{}.{}", protocol, part), draft.errors_of(ring),
                  parameter->relative_uncertainty, "tree");
    }
}

using Eigen::VectorXd;

constexpr Eigen::Index line_size = 3;

// Returns the seconds of the faster of one-shot and two-shot. Of each, `x` has the base, the time of a rank and the
// rate.
VectorXd custom_reduce_seconds(const std::vector<CollectiveRow>& rows, const VectorXd& x) {
  const auto on_line = [&](const CollectiveRow& row, model::CollectiveAlgorithm algorithm, Eigen::Index at) {
    const model::CollectiveLine line{.base = x[at], .nvlink_hop = x[at + 1], .nvlink_rate = x[at + 2]};
    return model::collective_path(algorithm, model::CollectiveProtocol::simple, model::Collective::all_reduce,
                                  {row.gpus, row.gpus}, line)
        .seconds(model::Bytes(static_cast<double>(row.bytes)));
  };
  return vector_of(rows, [&](const CollectiveRow& row) {
    return std::min(on_line(row, model::CollectiveAlgorithm::one_shot, 0),
                    on_line(row, model::CollectiveAlgorithm::two_shot, line_size));
  });
}

}  // namespace

model::Result<void> fit_collective_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto rows = TRY(load_collective_rows(draft.table("collectives")));
  const CollectiveTableFit fit = fit_collective_table(rows, draft.machine(), step.switch_sums);
  draft.held_out.push_back(fit.held_out);
  if (!fit.ring[2]) return draft.wrong("step.fit", draft.cited("collectives") + " never reaches the Simple protocol");
  const std::string how =
      fmt::format("fitted to two thirds of {} collectives on one node ({})", rows.size(), draft.cited("collectives"));
  // The lines are shares of the fastest, which is that of the link.
  const double rate = std::max(fit.ring[2]->rate().value, fit.direct[2] ? fit.direct[2]->rate().value : 0);
  draft.set("network.nvlink_rate", rate, "GB/s", std::max(fit.ring[2]->rate().deviation, 0.04), Evidence::fitted,
            how + "; versions of NCCL differ by 4 %");
  for (const char* scale : {"collective.nvlink_latency_scale", "collective.network_latency_scale"})
    draft.set(scale, 1, "1", std::nullopt, Evidence::fitted, "latencies of this profile are measured ones");
  draft.set("collective.launch", 0, "us", std::nullopt, Evidence::fitted, "base latencies hold the launch");
  set_lines(draft, "ring", fit.ring, rate, how);
  set_lines(draft, "direct", fit.direct, rate, how);
  set_trees(draft);
  draft.set("collective.copy_bandwidth", fit.copy_bandwidth.value, "GB/s", fit.copy_bandwidth.deviation,
            Evidence::fitted, how);
  if (!fit.in_switch) return {};
  draft.set("collective.nvls.available", 1, "1", std::nullopt, Evidence::fitted, how);
  draft.set("collective.nvls.simple.base", fit.in_switch->numbers[0].value, "us", fit.in_switch->numbers[0].deviation,
            Evidence::fitted, how);
  draft.set("collective.nvls.simple.nvlink_hop", 0, "us", std::nullopt, Evidence::fitted, "the base holds it");
  draft.set("collective.nvls.simple.efficiency", fit.in_switch->rate().value / rate, "1",
            fit.in_switch->rate().deviation, Evidence::fitted,
            how + "; bytes of the buffer over those of a ring's link");
  return {};
}

model::Result<void> fit_exchange_step(Draft& draft) {
  const auto rows = TRY(load_exchange_rows(draft.table("exchange")));
  const auto nvlink = draft.si("network.nvlink_rate");
  if (!nvlink)
    return draft.wrong("step.fit", "network.nvlink_rate is not known yet", "fit collectives before exchange");
  for (const char* direction : {"dispatch", "combine"}) {
    const auto fit = fit_exchange_table(rows, direction, draft.machine(), *nvlink);
    draft.held_out.push_back(fit.held_out);
    const std::string how =
        fmt::format("fitted to two thirds of the rows of DeepEP's {} ({})", direction, draft.cited("exchange"));
    const bool dispatch = std::string(direction) == "dispatch";
    std::vector<Fitted> own = fit.fitted, copies = fit.fitted;
    for (Fitted& constant : own) constant.name = fmt::format("exchange.{}.{}", direction, constant.name);
    for (Fitted& constant : copies)
      constant.name = (dispatch ? "exchange.cached_dispatch." : "exchange.weighted_combine.") + constant.name;
    draft.set(own, how);
    draft.correlate(own, fit.correlation);
    draft.set(copies, how);
    for (std::size_t i = 0; i < own.size(); ++i)
      draft.share(copies[i].name, draft.errors_of(own[i].name), copies[i].deviation, "");
  }
  const std::string link = "network.nvlink_rate";
  const std::optional<double> uncertainty = draft.find(link)->relative_uncertainty;
  draft.set("exchange.nvlink_rate", *nvlink, "GB/s", uncertainty, Evidence::assumed,
            "as network.nvlink_rate: with the SMs that were measured NVLink limits no row");
  draft.share("exchange.nvlink_rate", draft.errors_of(link), uncertainty, "");
  return {};
}

// The constants of both directions share the rates of the links: their geometric mean, and half the spread.
model::Result<void> fit_tray_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto rows = TRY(load_tray_exchange_rows(draft.table("nvl72")));
  double link = 1, local = 1, links = 0, locals = 0;
  for (const char* direction : {"dispatch", "combine"}) {
    const auto fit = fit_tray_table(rows, step.kernel, direction, step.format, draft.machine());
    draft.held_out.push_back(fit.held_out);
    const bool dispatch = std::string(direction) == "dispatch";
    const auto take = [&](const Fitted& rate, double& mean, double& deviation) {
      deviation = std::max({deviation, rate.deviation, std::abs(std::log(rate.value / mean)) / 2 * (dispatch ? 0 : 1)});
      mean = dispatch ? rate.value : std::sqrt(mean * rate.value);
    };
    take(fit.fitted[2], link, links);
    take(fit.fitted[3], local, locals);
    const std::string how = fmt::format("fitted to two thirds of the rows of {} {}, beyond a tray ({})", step.kernel,
                                        direction, draft.cited("nvl72"));
    for (const char* name : {dispatch ? "dispatch" : "combine", dispatch ? "cached_dispatch" : "weighted_combine"})
      for (Fitted start : {fit.fitted[0], fit.fitted[1]}) {
        start.name = fmt::format("exchange.{}.{}", name, start.name);
        draft.set({start}, how);
      }
  }
  const std::string how = fmt::format(
      "fitted to the rows of {} beyond a tray ({}), geometric mean of dispatch and combine; "
      "the two terms belong together, neither is a link's rate",
      step.kernel, draft.cited("nvl72"));
  draft.set("exchange.nvlink_rate", link, "GB/s", links, Evidence::fitted, how);
  draft.set("exchange.local_rate", local, "GB/s", locals, Evidence::fitted, how);
  return {};
}

// The step of a recipe that fits the all-reduce of an inference engine on one node, one-shot and two-shot, to the lines
// of model/cost/collective_cost.h: n GPUs read D bytes in
//   one-shot: base + (n - 1) rank_time + (n - 1) D / rate
//   two-shot: base + (n - 1) rank_time + 2 (n - 1)/n D / rate
// of which the faster one counts.

model::Result<void> fit_custom_reduce_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  std::vector<CollectiveRow> rows;
  for (const CollectiveRow& row : TRY(load_collective_rows(draft.table("custom_all_reduce"))))
    if (step.names(row.software)) rows.push_back(row);
  const std::string prefix = fmt::format("collective.custom.{}.", step.kind);
  if (rows.empty())
    return draft.wrong("step.software",
                       fmt::format("{} has no row of {}", draft.cited("custom_all_reduce"), step.kind));
  const std::vector<bool> held =
      marked(rows, [](const CollectiveRow& row) { return is_held_out(fmt::format("{}-{}", row.gpus, row.bytes)); });
  const auto training = selected(rows, held, false);
  const double link = draft.machine().nvlink_rate;
  VectorXd start(2 * line_size);
  start << 3e-6, 1e-7, link / 2, 7e-6, 4e-7, link / 2;
  const auto form = [&](const VectorXd& x) { return custom_reduce_seconds(training, x); };
  const LogFit fit = log_fit(form, seconds_of(training), start);
  const VectorXd roofline = vector_of(rows, [&](const CollectiveRow& row) {
    return static_cast<double>(row.bytes) * model::bus_factor(model::Collective::all_reduce, row.gpus) / link;
  });
  HeldOut& held_out = draft.held_out.emplace_back();
  held_out.family = "custom all-reduce";
  held_out.table = step.kind;
  add_errors(custom_reduce_seconds(rows, fit.values), roofline, seconds_of(rows), held,
             std::vector<bool>(rows.size(), false), held_out);
  const std::string how = fmt::format("fitted to two thirds of the rows of {} ({})", rows.front().software,
                                      draft.cited("custom_all_reduce"));
  for (const auto& [shot, at] : {std::pair<const char*, Eigen::Index>("one_shot", 0), {"two_shot", line_size}}) {
    CollectiveLine line = line_of(fit, at, "rank_time");
    for (Fitted& constant : line.numbers) constant.name = fmt::format("{}{}.{}", prefix, shot, constant.name);
    draft.set(line.numbers, how);
    draft.correlate(line.numbers, line.correlation);
  }
  return {};
}

}  // namespace plumbline::calibrate
