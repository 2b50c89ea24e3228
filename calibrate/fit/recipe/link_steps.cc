#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/components/load.h"
#include "calibrate/fit/detail/least_squares.h"
#include "calibrate/fit/detail/tables/tables.h"
#include "calibrate/fit/held_out.h"
#include "calibrate/fit/recipe/detail/draft.h"
#include "model/base/text_file.h"
#include "model/base/units.h"
#include "model/cost/collective_cost.h"
#include "model/cost/forms/transfer_forms.h"
#include "model/profile/constant_rules.h"

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
  // The nodes between which copies travel by NIC; without NVLink every rank is one.
  const auto groups = [&](const LowLatencyWork& work) { return uses_nvlink ? work.nodes : work.ranks; };
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
  if (const std::string file = draft.table("exchange"); model::is_file(file)) {  // not every GPU has one
    const auto table = TRY(load_exchange_rows(file));
    rows.insert(rows.end(), table.begin(), table.end());
  }
  for (const ExchangeRow& row : rows)
    if (row.mode == "low_latency" && step.names(row.software)) found.push_back(low_latency_row(row));
  return found;
}

struct Neighbor {
  std::string name;
  std::vector<model::Parameter> parameters;  // constants and, where its device is known, device figures
  std::vector<model::ConstantFit> fits;
  bool other_gpu = false;  // whether its constants are of another GPU than the recipe's

  const model::Parameter* find(const std::string& of) const {
    const auto found = std::ranges::find(parameters, of, &model::Parameter::name);
    return found == parameters.end() ? nullptr : &*found;
  }
  std::optional<double> si(const std::string& of) const {
    if (of == "derived.attention_pair") return attention_pair([this](const std::string& part) { return si(part); });
    const model::Parameter* parameter = find(of);
    return parameter == nullptr ? std::nullopt : std::optional(si_value(*parameter));
  }
};

// Returns 1 for a constant of which more makes kernels slower, and -1 where more makes them faster.
double slowing(const model::Parameter& constant) {
  const model::UnitDimension dimension = model::si_unit(constant.unit)->dimension;
  const bool rate =
      dimension == model::UnitDimension::bytes_per_second || dimension == model::UnitDimension::flops_per_second;
  return rate || constant.name.ends_with(".efficiency") ? -1 : 1;
}

// Returns what the error of a neighbor's constant is made of.
Draft::Errors neighbor_errors(const Draft& draft, const Neighbor& neighbor, const std::string& name) {
  if (neighbor.name == "self") return draft.errors_of(name);
  const auto called = [&](const std::string& of) { return fmt::format("{} {}", neighbor.name, of); };
  for (const model::ConstantFit& fit : neighbor.fits) {
    const auto has = [&](const std::vector<std::string>& entry) { return std::ranges::count(entry, name) > 0; };
    const auto entry = std::ranges::find_if(fit.constants, has);
    if (entry == fit.constants.end()) continue;
    Draft::Errors errors;
    const std::vector<double> row = model::factor_of(fit)[static_cast<std::size_t>(entry - fit.constants.begin())];
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i] != 0) errors[called(fit.constants[i].front())] = row[i];
    return errors;
  }
  return {{called(name), 1.0}};
}

model::Result<Neighbor> neighbor_of(const Draft& draft) {
  const std::string& name = draft.step().neighbor;
  if (name == "self") return Neighbor{name, draft.constants(), {}};
  const auto profile = TRY(draft.inputs().profile(name));
  Neighbor neighbor{name.substr(name.rfind('/') + 1), profile.parameters(), profile.fits()};
  if (profile.devices().empty()) return neighbor;
  neighbor.other_gpu = profile.devices().front() != draft.recipe().devices.front();
  std::vector<model::Parameter> figures;
  TRY(topologies::load_device(draft.inputs().devices, profile.devices().front(), figures));
  for (model::Parameter& figure : figures) neighbor.parameters.push_back(std::move(figure));
  return neighbor;
}

struct Scale {
  double factor = 1;
  std::string how;  // ", by device.sms 148/132"
};

model::Result<Scale> scale_of(const Draft& draft, const Neighbor& neighbor) {
  Scale scale;
  const auto add = [&](const std::string& name, bool inverse) -> model::Result<void> {
    const auto own = draft.si(name), other = neighbor.si(name);
    if (!own || !other || *own <= 0 || *other <= 0)
      return draft.wrong(
          inverse ? "step.over" : "step.by",
          fmt::format("{} is not known of {}", name, own && *own > 0 ? neighbor.name : draft.recipe().name),
          "order the steps so that it is, or scale by another one");
    scale.factor *= inverse ? *other / *own : *own / *other;
    scale.how += fmt::format(", {} {} {:.4g}/{:.4g}", inverse ? "over" : "by", name, *own, *other);
    return {};
  };
  if (const auto times = draft.step().times) {
    scale.factor *= *times;
    scale.how += fmt::format(", times {}", *times);
  }
  for (const std::string& name : draft.step().by) TRY(add(name, false));
  for (const std::string& name : draft.step().over) TRY(add(name, true));
  return scale;
}

std::string renamed(const RecipeStep& step, const std::string& name) {
  if (step.rename.empty() || !name.starts_with(step.rename)) return name;
  return step.to + name.substr(step.rename.size());
}

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

// Fits low-latency dispatch and combine to the form of model/cost/forms/transfer_forms.h. Copies are assumed to go to
// all ranks alike.
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

model::Result<void> take_neighbor_step(Draft& draft) {
  const RecipeStep& step = draft.step();
  const auto neighbor = TRY(neighbor_of(draft));
  const auto scale = TRY(scale_of(draft, neighbor));
  for (const std::string& pattern : step.constants) {
    bool any = false;
    for (const model::Parameter& parameter : neighbor.parameters) {
      if (!model::name_fits(parameter.name, pattern) || parameter.name.starts_with("device.")) continue;
      any = true;
      const std::string of = neighbor.name == "self" ? parameter.name : neighbor.name;
      draft.set(renamed(step, parameter.name), si_value(parameter) * scale.factor, parameter.unit,
                parameter.relative_uncertainty, step.same ? parameter.kind : model::Evidence::assumed,
                fmt::format("as {} ({} {}, {}){}", of, parameter.value, parameter.unit, to_string(parameter.kind),
                            scale.how));
      // Software of one GPU uses another one better or worse as a whole: what is scaled from it errs together.
      if (neighbor.other_gpu && !step.same)
        draft.share(renamed(step, parameter.name), {{"scaled from " + neighbor.name, slowing(parameter)}});
      else
        draft.share(renamed(step, parameter.name), neighbor_errors(draft, neighbor, parameter.name),
                    parameter.relative_uncertainty, fmt::format("{}:{}", step.path, step.line));
    }
    if (!any) return draft.wrong("step.constants", fmt::format("{} has no constant '{}'", neighbor.name, pattern));
  }
  return {};
}

}  // namespace plumbline::calibrate
