// What a slot puts on the resources of a pipeline rank: kernels on the GPU, bytes on its links; at the best rates of
// the profile, and what the cost functions add to them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/program/program.h"
#include "sim/predict/cost_models.h"

namespace plumbline::sim {

// Who has to work, and of links for what. Each is one queue of the simulation: its work runs one after the other.
// Traffic of different kinds on one link is not added up, because only some of it shares links there.
enum class Resource : std::uint8_t {
  compute,
  exchange_nic,
  exchange_nvlink,
  collective_nic,  // inside slots: tensor and context parallelism
  collective_nvlink,
  synchronisation_nic,  // reductions and gathers beside the slots
  synchronisation_nvlink,
  message_nic,
  message_nvlink,
  to_host,  // activations
  from_host,
  optimizer_host  // reduced gradients out, updated parameters back
};
inline constexpr std::size_t resources = 12;
// "compute", "NIC (dispatch and combine)", ...
std::string_view to_string(Resource resource);

// Of kernels in slots, seconds over the best rates; on a whole GPU that does nothing else.
struct KernelLoss {
  double recomputation = 0;  // all of its time, what it takes at best included
  double gemm = 0;           // ramps, waves and tiles that are not full, results that are written
  double memory_bound = 0;   // shortest kernels, scales, row maps
  double gaps = 0;           // between launches
  double ring = 0;           // attention waits for keys and values
  double total() const { return recomputation + gemm + memory_bound + gaps + ring; }
};

struct Load {                             // seconds
  std::array<double, resources> best{};   // without recomputation
  std::array<double, resources> taken{};  // of links: by the cost functions, alone
  KernelLoss loss;
  // What every kernel would take more if all of them ran beside communication: by the SMs that this holds, and because
  // it moves data.
  double seats_beside = 0, slowdown_beside = 0;

  double& at_best(Resource resource) { return best[static_cast<std::size_t>(resource)]; }
  double at_best(Resource resource) const { return best[static_cast<std::size_t>(resource)]; }
  Load& operator+=(const Load& other);
};

// One slot of each template.
std::vector<Load> template_loads(const model::StepProgram& program, const CostModels& costs);

}  // namespace plumbline::sim
