// Times workloads on devices of the host, with the streams, clocks, pools and operators of a step.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "model/base/error.h"
#include "real/host/comm/communicator.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"
#include "real/measure/runner.h"
#include "real/measure/workload.h"

namespace plumbline::real::host {

// The devices and groups of ranks, which workloads share.
class Machines {
 public:
  // `transport` is that of this process where ranks are processes; nullptr: ranks are threads of this process.
  Machines(const DeviceOptions& device, Transport* transport) : base_(device), transport_(transport) {}

  HostDevice& device(int cores);

  // The ranks of a group that run in this process, one core each.
  struct Ranks {
    std::int32_t count = 0, first = 0;  // of all processes; the lowest of these consecutive ranks
    std::vector<std::unique_ptr<HostDevice>> devices;
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::unique_ptr<Communicator>> communicators;  // they use the devices and transports above

    // Returns the group of all ranks for one of these.
    Group group(std::size_t rank) const { return all_ranks(count, first + static_cast<std::int32_t>(rank)); }
    model::Result<void> synchronize();
    // Returns the seconds from the last rank's start of the work with the label to the last end. Discards all records.
    double take_seconds(std::uint32_t label);
  };
  Ranks& ranks(std::int64_t count);

 private:
  DeviceOptions options(int cores) const {
    DeviceOptions options = base_;
    options.compute_cores = cores;
    return options;
  }

  DeviceOptions base_;
  Transport* transport_;
  std::map<int, std::unique_ptr<HostDevice>> devices_;
  std::map<std::int64_t, std::unique_ptr<Ranks>> ranks_;
};

inline constexpr std::size_t buffer_sets = 3;

// Machines and workload must outlive the runner. Infeasible where the host cannot compute an operator.
model::Result<std::unique_ptr<Runner>> make_runner(const Workload& workload, Machines& machines);

std::unique_ptr<Runner> make_sequence_runner(const Sequence& sequence, HostDevice& device);
std::unique_ptr<Runner> make_launch_runner(HostDevice& device);
std::unique_ptr<Runner> make_message_runner(const MessageWorkload& message, Machines::Ranks& ranks);
std::unique_ptr<Runner> make_collective_runner(const CollectiveWorkload& collective, Machines::Ranks& ranks);
std::unique_ptr<Runner> make_group_runner(const GroupWorkload& group, Machines::Ranks& ranks);

// Returns the bytes of all buffers of a workload.
double buffer_bytes(const Workload& workload);

}  // namespace plumbline::real::host
