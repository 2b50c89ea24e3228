// Fits messages: t = latency + bytes / rate. Host collectives (model/cost/collective_cost.h, one implementation): t =
// launch + steps * time per step + bus bytes / (rate * efficiency). Expert all-to-alls: as messages, of all bytes that
// a rank sends.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "calibrate/fit/detail/collective_records.h"
#include "calibrate/fit/detail/constant_list.h"
#include "model/base/statistics.h"
#include "model/base/units.h"
#include "model/cost/collective_cost.h"
#include "model/cost/constants.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Fits t = fixed + bytes / rate; returns nullopt when the records are too few.
std::optional<RobustFit> fit_line(const std::string& name, const std::vector<const Measurement*>& records,
                                  ProfileFit& result) {
  if (records.empty()) return std::nullopt;
  const auto rows = static_cast<Index>(records.size());
  Eigen::MatrixXd features = Eigen::MatrixXd::Ones(rows, 2);
  VectorXd seconds(rows);
  for (Index i = 0; i < rows; ++i) {
    const Measurement& m = *records[static_cast<std::size_t>(i)];
    features(i, 1) = extent_of(m, "bytes");
    seconds[i] = m.time.p50;
  }
  const Form form = [&](const VectorXd& x) -> VectorXd { return features * x; };
  return fit_family(name, form, seconds, starting_point(features, seconds), result);
}

void fit_messages(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  const auto messages = fit_line("messages", records.messages, result);
  if (messages) {
    const std::string how = fmt::format("least squares over {} records of messages", records.messages.size());
    constants.add_fitted("network.latency", *messages, 0, how);
    constants.add_rate("network.nvlink_rate", *messages, 1, how);
  }
  const auto all_to_alls = fit_line("all-to-alls", records.all_to_alls, result);
  if (!all_to_alls && !messages) return;
  const std::string how =
      all_to_alls ? fmt::format("least squares over {} records of all-to-alls", records.all_to_alls.size())
                  : fmt::format("no record of an all-to-all, taken as {} messages at once", records.messages.size());
  constants.add_fitted("exchange.notify", all_to_alls ? *all_to_alls : *messages, 0, how);
  constants.add_rate("exchange.nvlink_rate", all_to_alls ? *all_to_alls : *messages, 1, how);
}

struct CollectiveTerms {
  double steps = 0, bus_bytes = 0;
};

CollectiveTerms terms_of(const Measurement& m) {
  const model::Collective kind = model::parse_collective(m.op).value();
  const auto ranks = static_cast<std::int64_t>(extent_of(m, "ranks"));
  const double passes = kind == model::Collective::all_reduce ? 2 : 1;
  return {passes * static_cast<double>(ranks - 1), model::bus_factor(kind, ranks) * extent_of(m, "bytes")};
}

// Records of different numbers of steps separate launch from step time; with one number of steps the launch is 0.
void fit_collectives(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  if (records.collectives.empty()) return;
  const auto rows = static_cast<Index>(records.collectives.size());
  std::set<double> steps;
  for (const Measurement* m : records.collectives) steps.insert(terms_of(*m).steps);
  const bool launches = steps.size() > 1;
  Eigen::MatrixXd features = Eigen::MatrixXd::Ones(rows, launches ? 3 : 2);
  VectorXd seconds(rows);
  for (Index i = 0; i < rows; ++i) {
    const Measurement& m = *records.collectives[static_cast<std::size_t>(i)];
    features(i, 0) = terms_of(m).bus_bytes;
    features(i, 1) = terms_of(m).steps;
    seconds[i] = m.time.p50;
  }
  const Form form = [&](const VectorXd& x) -> VectorXd { return features * x; };
  const auto fit = fit_family("collectives", form, seconds, starting_point(features, seconds), result);
  if (!fit) return;
  const std::string how = fmt::format("least squares over {} records of collectives", records.collectives.size());
  if (launches) constants.add_fitted("collective.launch", *fit, 2, how);
  const std::string simple = "collective.ring.simple.nvlink_hop";
  RobustFit scaled = *fit;
  scaled.values[1] /= constants.value(simple);
  constants.add_fitted("collective.nvlink_latency_scale", scaled, 1, how + ", of a transfer of " + simple);
  if (fit->silent[0]) return;
  const double efficiency = 1 / fit->values[0] / constants.value("network.nvlink_rate");
  for (const char* algorithm : {"ring", "tree"})
    for (const char* protocol : {"ll", "ll128", "simple"})
      constants.add(fmt::format("collective.{}.{}.efficiency", algorithm, protocol), efficiency, fit->uncertainty[0],
                    model::Evidence::fitted, how + ", their rate over that of messages");
}

// Returns the record of the same operator run alone, on a host on as many cores; nullptr when there is none.
const FitRecord* alone(const FitRecord& overlapped, const std::vector<FitRecord>& records, MachineKind machine) {
  const auto same = [&](const FitRecord& other) {
    const bool as_many = machine == MachineKind::gpu || other.cores == overlapped.cores;
    return other.kind == overlapped.kind && as_many && other.format == overlapped.format &&
           other.measurement->phase == overlapped.measurement->phase &&
           other.measurement->shape == overlapped.measurement->shape && other.key == overlapped.key;
  };
  const auto found = std::ranges::find_if(records, same);
  return found == records.end() ? nullptr : &*found;
}

void add_slowdown(const std::string& name, std::vector<double> ratios, ConstantList& constants) {
  if (ratios.empty()) return;
  const double typical = model::upper_median(ratios);
  std::optional<double> spread;
  if (ratios.size() > 2) {
    for (double& ratio : ratios) ratio = std::abs(ratio - typical);
    spread = model::upper_median(ratios) / typical;
  }
  constants.add(name, std::max(1.0, typical), spread, model::Evidence::measured,
                fmt::format("middle of {} ratios during a transfer and alone", ratios.size()));
}

// Returns the constants that the records determine. Rates within a node matter in every group of several GPUs a node.
std::vector<std::string> determined(const std::vector<const Measurement*>& records) {
  const auto several = [](const Measurement* m) { return group_of(*m).nodes() > 1; };
  const auto within = [](const Measurement* m) { return group_of(*m).nodes() == 1; };
  std::vector<std::string> names = {"collective.launch"};
  if (std::ranges::any_of(records, within))
    names.insert(names.end(), {"collective.nvlink_latency_scale", "network.nvlink_rate"});
  if (std::ranges::any_of(records, several))
    names.insert(names.end(), {"collective.network_latency_scale", "network.nic_rate"});
  return names;
}

// The seconds of all records with other values, in SI, of some constants.
class CollectiveForm {
 public:
  CollectiveForm(const model::Profile& base, const std::vector<const Measurement*>& records)
      : base_(base), records_(records), names_(determined(records)) {}

  const std::vector<std::string>& names() const { return names_; }

  VectorXd start(const ConstantList& constants, const VectorXd& seconds) const {
    return vector_of(names_, [&](const std::string& name) {
      const double value = constants.value(name);
      return value > 0 ? value : seconds.minCoeff() / 2;
    });
  }

  VectorXd operator()(const VectorXd& x) const {
    std::vector<model::Parameter> parameters = base_.parameters();
    for (std::size_t i = 0; i < names_.size(); ++i) {
      model::Parameter& parameter = parameters[base_.find(names_[i]).value()];
      parameter.value = x[static_cast<Index>(i)] / model::si_unit(parameter.unit)->factor;
    }
    const auto cost = collectives_of({base_.name(), "", std::move(parameters)}).value();
    return vector_of(records_, [&](const Measurement* m) { return collective_seconds(cost, *m); });
  }

 private:
  const model::Profile& base_;
  const std::vector<const Measurement*>& records_;
  std::vector<std::string> names_;
};

}  // namespace

void fit_transfers(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  fit_messages(records, constants, result);
  if (records.machine == MachineKind::gpu)
    fit_gpu_collectives(records, constants, result);
  else
    fit_collectives(records, constants, result);
}

void fit_interference(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  std::vector<double> gemms, attention;
  std::size_t unpaired = 0;
  for (const FitRecord& overlapped : records.overlapped) {
    const bool gemm = is_gemm(overlapped.type);
    if (!gemm && overlapped.type != model::OperatorClass::attention) continue;
    if (overlapped.alone_seconds > 0) {
      const double share =
          static_cast<double>(overlapped.cores) / static_cast<double>(overlapped.measurement->sms.value_or(1));
      (gemm ? gemms : attention).push_back(overlapped.seconds / overlapped.alone_seconds * share);
      continue;
    }
    const FitRecord* free = alone(overlapped, gemm ? records.gemms : records.attention, records.machine);
    if (free == nullptr) {
      ++unpaired;
      continue;
    }
    // The effect of fewer SMs is not part of the slowdown.
    const double fewer = static_cast<double>(overlapped.cores) / static_cast<double>(free->cores);
    (gemm ? gemms : attention).push_back(overlapped.seconds / free->seconds * fewer);
  }
  add_slowdown("gemm.slowdown_beside_transfer", std::move(gemms), constants);
  add_slowdown("attention.slowdown_beside_transfer", std::move(attention), constants);
  if (unpaired > 0)
    result.notes.push_back(fmt::format("{} record{} taken during a transfer without one of the same operator alone",
                                       unpaired, unpaired == 1 ? "" : "s"));
}

// Fits collectives on GPUs with the cost function of all predictions (model/cost/collective_cost.h): the launch, and
// the latency scale and rate of the links inside a node and between nodes, as far as the records reach.

model::CollectiveGroup group_of(const Measurement& m) {
  const auto ranks = static_cast<std::int64_t>(extent_of(m, "ranks"));
  const auto nodes = std::max<std::int64_t>(1, static_cast<std::int64_t>(extent_of(m, "nodes")));
  return {ranks, model::ceil_div(ranks, nodes)};
}

model::Result<model::CollectiveCost> collectives_of(const model::Profile& profile) {
  model::ClusterShape cluster;
  cluster.gpus_per_node = cluster.nics_per_node = 1;
  model::ConstantReader constants(profile);
  cluster.intra_node_bandwidth = model::BytesPerSecond(constants.value("network.nvlink_line_rate"));
  cluster.nic_bandwidth = model::BytesPerSecond(constants.value("network.nic_line_rate"));
  return model::CollectiveCost::make(profile, cluster);
}

double collective_seconds(const model::CollectiveCost& cost, const Measurement& m) {
  return cost.time(model::parse_collective(m.op).value(), group_of(m), model::Bytes(extent_of(m, "bytes")));
}

void fit_gpu_collectives(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  if (records.collectives.empty()) return;
  if (const auto valid = collectives_of(constants.base()); !valid) {
    result.notes.push_back(fmt::format("collectives are not fitted: {}", model::to_string(valid.error())));
    return;
  }
  const CollectiveForm form(constants.base(), records.collectives);
  const VectorXd seconds = vector_of(records.collectives, [](const Measurement* m) { return m->time.p50; });
  const auto fit = fit_family("collectives", form, seconds, form.start(constants, seconds), result);
  if (!fit) return;
  const std::string how = fmt::format("least squares over {} records of collectives", seconds.size());
  for (std::size_t i = 0; i < form.names().size(); ++i)
    constants.add_fitted(form.names()[i], *fit, static_cast<Index>(i), how);
}

}  // namespace plumbline::calibrate
