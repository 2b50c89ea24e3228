// The load of a slot on the resources of a pipeline rank: kernels on the GPU and bytes on its links, at the best rates
// of the profile, and what the cost functions add to that.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "model/profile/cluster.h"
#include "model/program/program.h"
#include "sim/predict/cost_models.h"
#include "sim/step/segment_memo.h"

namespace plumbline::sim {

// The resources of a rank; links count separately by purpose. Each is one queue of the simulation: its work runs one
// after the other. Traffic of different kinds on one link is not added up, because only some of it shares links.
enum class Resource : std::uint8_t {
  compute,
  all_to_all_nic,
  all_to_all_nvlink,
  collective_nic,  // inside slots: tensor and context parallelism
  collective_nvlink,
  data_parallel_nic,  // reductions and gathers that overlap the slots
  data_parallel_nvlink,
  message_nic,
  message_nvlink,
  to_host,  // activations
  from_host,
  optimizer_host  // reduced gradients out, updated parameters back
};
inline constexpr std::size_t resources = 12;
// Returns "compute", "NIC (dispatch and combine)", ...
std::string_view to_string(Resource resource);

// Seconds of kernels in slots above their best rates, on a whole GPU without other work.
struct KernelLoss {
  double recomputation = 0;  // all of the recomputed kernels' time
  double gemm = 0;           // ramps, waves and tiles that are not full, results that are written
  double clock = 0;          // GEMMs and attention below the clock of the best rates
  double memory_bound = 0;   // shortest kernels, scales, row maps
  double gaps = 0;           // between launches
  double ring = 0;           // attention waits for keys and values
  double host = 0;           // the GPU waits for the host to launch kernels
  double copies = 0;         // of gathered parameters and of gradients before their reduction
  double total() const { return recomputation + gemm + clock + memory_bound + gaps + ring + host + copies; }
};

struct Load {                             // seconds
  std::array<double, resources> best{};   // without recomputation
  std::array<double, resources> taken{};  // of links: by the cost functions, without overlap
  KernelLoss loss;
  // The extra seconds if every kernel ran with communication: because of the SMs that it holds, and of its traffic.
  double lost_to_sms = 0, lost_to_slowdown = 0;

  double& at_best(Resource resource) { return best[static_cast<std::size_t>(resource)]; }
  double at_best(Resource resource) const { return best[static_cast<std::size_t>(resource)]; }
  Load& add(const Load& other, double times = 1);
};

struct SlotLoad {
  Load load;
  double flop_seconds = 0;  // FLOPs over the device's peak: no kernel can be faster
};

// Loads of slots of the same blocks. Layers of one kind have the same segments in every slot, each counted once.
class SegmentLoads {
 public:
  // All references must outlive the object. At the first call the program must have the blocks of a whole model.
  SegmentLoads(const model::StepProgram& program, const CostModels& costs, const model::Device& device)
      : program_(program), costs_(costs), device_(device) {}

  SlotLoad of(const model::SlotTemplate& slot, double clock);

 private:
  const SlotLoad& segment(const model::Segment& segment, double width, double clock);
  double least_width(const model::Segment& segment, bool with_second_stream) const;

  const model::StepProgram& program_;
  const CostModels& costs_;
  const model::Device& device_;
  std::optional<model::CoRunner> co_runner_;  // the communication that overlaps this model's kernels
  SegmentMemo<std::map<std::pair<double, double>, SlotLoad>> known_;  // by width and clock
};

}  // namespace plumbline::sim
