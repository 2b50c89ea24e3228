// The inputs of the cost functions from the cluster. Plain data; topologies/ fills it from TOML.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/data_type.h"
#include "model/base/integers.h"
#include "model/base/provenance.h"
#include "model/base/units.h"
#include "model/cost/sm_partition.h"
#include "model/economics/prices.h"

namespace plumbline::model {

// Memory that is taken before the model gets any (model/memory/memory.h). 0: unknown.
struct MemoryReserve {
  Bytes context;             // the driver's context, with the kernels it loaded
  Bytes matmul_workspace;    // workspace of each stream that runs GEMMs
  Bytes communicator;        // buffers of the collective library for one group of ranks
  Bytes all_to_all;          // buffers of the expert all-to-all library
  double fragmentation = 0;  // unused memory of the allocator over the dynamic tensors
  // What the software adds: constants allocator.* of the profile (docs/memory.md). 0 or false: not counted.
  double fragmentation_low = 0, fragmentation_high = 0;  // the range of `fragmentation`; 0: none is stated
  std::optional<Bytes> reduction_buffers{};              // none: two gradient buckets
  Bytes update_copies{};                                 // per updated parameter
  Bytes reduced_copies{};                                // per parameter whose gradient has an FP32 copy
  bool separate_gradients = false;                       // a weight's gradient exists before it is added
  bool shape_gradients = false;                          // a BF16 buffer for each shape of a weight
  bool master_shards = false;                            // zero_stage 3: gathers cast the master weights
  bool stage_outputs = false;                            // outputs of a stage wait for its backward
  bool operator==(const MemoryReserve&) const = default;
};

struct Device {
  std::string name;  // "h800-sxm"
  std::int64_t sms = 0;
  SmResources sm;             // resources of each SM
  FlopsPerSecond bf16_peak;   // dense, datasheet
  FlopsPerSecond fp8_peak;    // dense, datasheet; 0 where the device has no FP8
  FlopsPerSecond tf32_peak;   // dense, datasheet; 0 where the device has no TF32
  FlopsPerSecond nvfp4_peak;  // dense, datasheet, of formats with four bits; 0 where the device has none
  BytesPerSecond memory_bandwidth;
  Bytes memory;                   // usable capacity
  BytesPerSecond host_bandwidth;  // to and from host memory, per direction, line rate; 0: unknown
  double tdp = 0;                 // W, thermal design power; 0: unknown
  MemoryReserve reserve;
  std::vector<std::string> lacks = {};  // kernels of attention and formats of GEMMs that it does not have
  Bytes host_memory = {};               // of the host; 0: unknown
  std::int64_t host_gpus = 1;           // GPUs that share it, consecutive ones
  bool operator==(const Device&) const = default;
};

// Returns the dense peak in FLOP/s of GEMMs whose operands have that format; 0 where the device lacks it. MXFP8 runs at
// the rate of FP8, MXFP4 at that of NVFP4. FP32 outside of tensor cores is slower than the peak of BF16 that stands for
// it.
inline double peak(const Device& device, DataType operand) {
  switch (operand) {
    case DataType::fp8_tile:
    case DataType::fp8_block:
    case DataType::fp8:
    case DataType::mxfp8:
      return device.fp8_peak.value();
    case DataType::nvfp4:
    case DataType::mxfp4:
      return device.nvfp4_peak.value();
    case DataType::tf32:
      return device.tf32_peak.value();
    default:
      return device.bf16_peak.value();
  }
}
inline double peak(const Device& device, Precision precision) { return peak(device, activation_type(precision)); }

// Returns whether the device lacks a kernel of attention or a format, by its word in a plan.
inline bool lacks(const Device& device, std::string_view word) {
  return std::ranges::find(device.lacks, word) != device.lacks.end();
}
inline bool has_format(const Device& device, Precision precision) {
  return peak(device, precision) > 0 && !lacks(device, to_string(precision));
}

// What a network between nodes makes of rates and latencies, over InfiniBand of the same line rate, with which profiles
// were measured. docs/network.md has the sources.
struct NetworkFactors {
  double collective_rate = 1;     // on a NIC's rate in collectives and messages
  double collective_latency = 1;  // on the latency of a transfer between nodes
  double exchange_rate = 1;       // on a NIC's rate in dispatch and combine
  double low_latency_start = 1;   // on the start of dispatch and combine by low-latency kernels
  bool operator==(const NetworkFactors&) const = default;
};

// Returns the GPUs of a host: where a node is an NVLink domain of racks, its hosts have four each.
constexpr std::int64_t gpus_per_host(std::int64_t gpus_per_node) { return gpus_per_node > 16 ? 4 : gpus_per_node; }

struct ClusterShape {
  std::string name;             // topology name
  std::string default_profile;  // cost profile that the topology names
  Device device;
  std::int64_t gpus = 0;
  std::int64_t gpus_per_node = 0;       // GPUs of one NVLink (or equivalent) domain
  BytesPerSecond intra_node_bandwidth;  // per GPU and direction, datasheet
  std::int64_t nics_per_node = 0;
  BytesPerSecond nic_bandwidth;  // line rate per NIC and direction
  NetworkFactors network;
  std::vector<Parameter> parameters;  // every constant above, with its source
  Prices prices;                      // as the topology states them, with their sources
  FabricParts fabric;                 // parts of a fabric for this many GPUs

  std::int64_t nodes() const { return ceil_div(gpus, gpus_per_node); }
  std::int64_t hosts() const { return ceil_div(gpus, gpus_per_host(gpus_per_node)); }
  // Returns a GPU's share of its node's NIC line rate.
  BytesPerSecond inter_node_bandwidth() const {
    return nic_bandwidth * (static_cast<double>(nics_per_node) / static_cast<double>(gpus_per_node));
  }
  bool operator==(const ClusterShape&) const = default;
};

}  // namespace plumbline::model
