// Fits collectives on GPUs with the cost function of all predictions (model/cost/collective_cost.h): the launch, and
// the latency scale and rate of the links inside a node and between nodes, as far as the records reach.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "calibrate/fit/detail/collective_records.h"
#include "calibrate/fit/detail/constant_list.h"
#include "model/base/si_unit.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

double constant(const model::Profile& profile, const char* name) {
  const auto index = profile.find(name);
  if (!index) return 0;
  const model::Parameter& parameter = profile.parameters()[*index];
  return parameter.value * model::si_unit(parameter.unit)->factor;
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

model::CollectiveGroup group_of(const Measurement& m) {
  const auto ranks = static_cast<std::int64_t>(extent_of(m, "ranks"));
  const auto nodes = std::max<std::int64_t>(1, static_cast<std::int64_t>(extent_of(m, "nodes")));
  return {ranks, model::ceil_div(ranks, nodes)};
}

model::Result<model::CollectiveCost> collectives_of(const model::Profile& profile) {
  model::ClusterShape cluster;
  cluster.gpus_per_node = cluster.nics_per_node = 1;
  cluster.intra_node_bandwidth = model::BytesPerSecond(constant(profile, "network.nvlink_line_rate"));
  cluster.nic_bandwidth = model::BytesPerSecond(constant(profile, "network.nic_line_rate"));
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
